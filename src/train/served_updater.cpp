#include "served_updater.hpp"

#include <vaecf/comm/shards.hpp>

#include <algorithm>
#include <array>
#include <cstdint>

#include "shard_pieces.hpp"

namespace vaecf::train {

ServedUpdater::ServedUpdater(const SessionOptions& options, const Services& services, model::Model& model,
                             comm::Roles roles)
    : ServedUpdater(options, services, model, roles, bucket_plan(options, model.layout(), roles.servers)) {}

ServedUpdater::ServedUpdater(const SessionOptions& options, const Services& services, model::Model& model,
                             comm::Roles roles, const comm::BucketPlan& plan)
    : Updater(options, services, model, roles.is_worker(services.communicator.rank()) ? 0 : plan.shard_size(),
              plan.padded_size()),
      link_(services.communicator, services.backend, plan, roles, options.distributed.wire == "bf16"),
      asynchronous_(options.distributed.updates == "asynchronous"),
      clips_(options.train.clip_gradient_norm > 0.0),
      own_gradient_(services.backend.make_step_state()) {
  if (roles.is_worker(services.communicator.rank())) return;
  server_ = std::make_unique<SliceServer>(options, services, model.layout(), link_, optimizer_);
}

void ServedUpdater::take_weights() {
  behind_ = false;
  if (!server_) return;
  comm::pack_shard(services_.backend, link_.plan(), link_.roles().server_index(services_.communicator.rank()),
                   model_.parameters().master(), server_->masters());
}

void ServedUpdater::set_flat(FlatState state, const std::function<void(backend::FloatBuffer&)>& fill) {
  if (state == FlatState::weights) {
    fill(model_.parameters().master());
    services_.backend.weights_changed(model_.parameters());
    return take_weights();
  }
  services_.backend.fill(*gradients_, 0.0F);
  fill(*gradients_);
  if (!server_) return;
  comm::pack_shard(services_.backend, link_.plan(), link_.roles().server_index(services_.communicator.rank()),
                   *gradients_, moment(state));
}

void ServedUpdater::round_weights() {
  if (link_.bf16_wire()) round_to_bf16();
}

/// Gradients travel when all are there: nobody needs to hear of them before.
backend::GradientReady ServedUpdater::begin(bool) {
  return {};
}

void ServedUpdater::sum(backend::StepState&) {
  if (server_) services_.backend.fill(*gradients_, 0.0F);
  services_.communicator.all_reduce(
      std::span<float>(gradients_->data(), static_cast<std::size_t>(gradients_->size())));
}

double ServedUpdater::gradient_squares() {
  if (!clips_ || !asynchronous_ || numbers_.users == 0) return 0.0;
  backend::Backend& backend = services_.backend;
  backend.begin_step({.rule = optimizer_.rule(numbers_.updates_done, numbers_.users)}, *own_gradient_);
  backend.add_gradient_squares(*gradients_, {0, model_.layout().size}, *own_gradient_);
  return *backend.gradient_squares(*own_gradient_).data();
}

void ServedUpdater::update(backend::StepState& step, model::StepClock& clock,
                           std::span<const backend::Layer>) {
  behind_ = true;
  if (server_) return server_->serve(numbers_, step, clock);
  link_.push_and_pull({numbers_.updates_done, numbers_.users, gradient_squares()}, *gradients_,
                      model_.parameters());
  clock.lap(&model::StepSeconds::reduce);
}

void ServedUpdater::spread(const backend::FloatBuffer* shard, backend::FloatBuffer& flat) {
  link_.all_gather_shards(shard, flat);
}

void ServedUpdater::settle() {
  if (!behind_) return;
  spread(server_ ? &server_->masters() : nullptr, model_.parameters().master());
  services_.backend.weights_changed(model_.parameters());
  round_weights();
  behind_ = false;
}

const backend::FloatBuffer& ServedUpdater::flat(FlatState state) {
  settle();
  if (state == FlatState::weights && !link_.bf16_wire()) return model_.parameters().master();
  const backend::FloatBuffer* shard = nullptr;
  if (server_) shard = state == FlatState::weights ? &server_->masters() : &moment(state);
  // Between steps the gradient's memory is free.
  spread(shard, *gradients_);
  return *gradients_;
}

WireBytes ServedUpdater::wire_bytes() const {
  const comm::Roles& roles = link_.roles();
  const auto push = static_cast<double>(link_.push_bytes());
  const auto pull = static_cast<double>(link_.pull_bytes());
  return {.total = roles.workers * roles.servers * (push + pull),
          .worker_out = roles.servers * push,
          .worker_in = roles.servers * pull,
          .server_out = roles.workers * pull,
          .server_in = roles.workers * push};
}

std::optional<Staleness> ServedUpdater::take_staleness() {
  if (!asynchronous_) return std::nullopt;
  const Staleness mine = server_ ? server_->take_staleness() : Staleness{};
  std::array<std::int64_t, 2> most = {mine.ahead, mine.age};
  std::array<double, 2> sums = {static_cast<double>(mine.updates), mine.mean_age};
  services_.communicator.all_reduce(std::span<std::int64_t>(most), comm::Reduction::max);
  services_.communicator.all_reduce(std::span<double>(sums));
  // Every server sees every gradient.
  return Staleness{static_cast<std::int64_t>(sums[0]) / link_.roles().servers, most[0], most[1],
                   sums[1] / std::max(1.0, sums[0])};
}

}  // namespace vaecf::train
