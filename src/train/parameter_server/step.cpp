#include "train/parameter_server/step.hpp"

#include <vaecf/comm/reducer.hpp>

#include <algorithm>
#include <array>
#include <span>

#include "train/bucket_plan.hpp"

namespace vaecf::train {

Range ParameterServerStep::owned_shards(const SessionOptions& options, const comm::Communicator& communicator,
                                        const data::VirtualShards& shards) {
  const comm::Roles roles(options.distributed, communicator.size());
  if (!roles.is_worker(communicator.rank())) return {};
  return shards.owned_shards(communicator.rank(), roles.workers);
}

std::int64_t ParameterServerStep::size_multiple(const SessionOptions& options) {
  return comm::BucketPlan::unit * options.distributed.servers;
}

ParameterServerStep::ParameterServerStep(const SessionOptions& options, const Services& services,
                                         model::Network& model, ShardRows& items, ShardRows* features)
    : ParameterServerStep(options, services, model, items, features,
                          comm::Roles(options.distributed, services.communicator.size()),
                          bucket_plan(options, model.layout(), options.distributed.servers)) {}

ParameterServerStep::ParameterServerStep(const SessionOptions& options, const Services& services,
                                         model::Network& model, ShardRows& items, ShardRows* features,
                                         comm::Roles roles, const comm::BucketPlan& plan)
    : clock(services.backend, false),
      services_(services),
      model_(model),
      items_(items),
      features_(features),
      optimizer_(options.optimizer, options.train.weight_decay, services.backend,
                 roles.is_worker(services.communicator.rank()) ? 0 : plan.shard_size(),
                 options.train.clip_gradient_norm),
      gradients_(services.backend.make_buffer(plan.padded_size())),
      channel_(services.communicator, services.backend, plan, roles, options.distributed.wire == "bf16"),
      asynchronous_(options.distributed.updates == "asynchronous"),
      clips_(options.train.clip_gradient_norm > 0.0),
      own_gradient_(services.backend.make_step_state()) {
  if (roles.is_worker(services.communicator.rank())) return;
  server_ = std::make_unique<ParameterServer>(options, services, model.layout(), channel_, optimizer_);
  pack(model.parameters().master(), server_->masters());
}

void ParameterServerStep::run(backend::StepNumbers numbers, std::int64_t batch_users,
                              backend::StepState& step) {
  clock.start();
  numbers.rule = optimizer_.rule(numbers.step, batch_users);
  services_.backend.begin_step(numbers, step);
  synced_ = false;
  if (server_) {
    server_->serve(numbers.step, step, clock);
  } else {
    const std::int64_t users = items_.users(numbers.batch);
    const backend::Batch& items = items_.gather(step, users);
    const backend::Batch* features = features_ != nullptr ? &features_->gather(step, users) : nullptr;
    model_.forward_backward({items, features}, step, *gradients_, {}, clock, nullptr);
    // All at once: nothing travels beside backward.
    channel_.push_and_pull({numbers.step, users, gradient_squares(numbers.step, users)}, *gradients_,
                           model_.parameters());
    clock.lap(&model::StepSeconds::reduce);
  }
  services_.backend.end_step(step);
  clock.lap(&model::StepSeconds::update);
}

double ParameterServerStep::gradient_squares(std::int64_t step, std::int64_t users) {
  if (!clips_ || !asynchronous_ || users == 0) return 0.0;
  backend::Backend& backend = services_.backend;
  backend.begin_step({.rule = optimizer_.rule(step, users)}, *own_gradient_);
  backend.inspect_gradients(*gradients_, {0, model_.layout().size}, *own_gradient_);
  return backend.verdict(*own_gradient_).data()[1];
}

void ParameterServerStep::pack(const backend::FloatBuffer& flat, backend::FloatBuffer& shard) {
  const int server = channel_.roles().server_index(services_.communicator.rank());
  comm::pack_parts(services_.backend, channel_.plan(), server, flat, shard);
}

void ParameterServerStep::sync_weights() {
  if (synced_) return;
  channel_.all_gather_shards(server_ ? &server_->masters() : nullptr, model_.parameters().master());
  services_.backend.weights_changed(model_.parameters());
  round_weights();
  synced_ = true;
}

void ParameterServerStep::round_weights() {
  if (channel_.bf16_wire())
    comm::round_to_bf16_wire(services_.backend, model_.parameters(), gradients_->size());
}

void ParameterServerStep::set_flat(FlatState state, const std::function<void(backend::FloatBuffer&)>& fill) {
  if (state == FlatState::weights) {
    fill(model_.parameters().master());
    services_.backend.weights_changed(model_.parameters());
    synced_ = true;
    if (server_) pack(model_.parameters().master(), server_->masters());
    return;
  }
  services_.backend.fill(*gradients_, 0.0F);
  fill(*gradients_);
  if (server_) pack(*gradients_, moment(state));
}

const backend::FloatBuffer& ParameterServerStep::flat(FlatState state) {
  sync_weights();
  if (state == FlatState::weights && !channel_.bf16_wire()) return model_.parameters().master();
  const backend::FloatBuffer* shard = nullptr;
  if (server_) shard = state == FlatState::weights ? &server_->masters() : &moment(state);
  // Between steps the gradient's memory is free.
  channel_.all_gather_shards(shard, *gradients_);
  return *gradients_;
}

double ParameterServerStep::update_bytes() const {
  const auto parameters = static_cast<double>(model_.layout().parameter_count());
  constexpr double in_and_out = 2.0 * sizeof(float);
  if (server_) return parameters / channel_.roles().servers * 4.0 * in_and_out;
  return parameters * (in_and_out + (services_.backend.precision() == backend::Precision::bf16 ? 2.0 : 0.0));
}

WireBytes ParameterServerStep::wire_bytes() const {
  const comm::Roles& roles = channel_.roles();
  const auto push = static_cast<double>(channel_.push_bytes());
  const auto pull = static_cast<double>(channel_.pull_bytes());
  return {.total = roles.workers * roles.servers * (push + pull),
          .worker_out = roles.servers * push,
          .worker_in = roles.servers * pull,
          .server_out = roles.workers * pull,
          .server_in = roles.workers * push};
}

std::optional<Staleness> ParameterServerStep::take_staleness() {
  if (!asynchronous_) return std::nullopt;
  const Staleness mine = server_ ? server_->take_staleness() : Staleness{};
  std::array<std::int64_t, 2> most = {mine.ahead, mine.age};
  std::array<double, 2> sums = {static_cast<double>(mine.updates), mine.mean_age};
  services_.communicator.all_reduce(std::span<std::int64_t>(most), comm::Reduction::max);
  services_.communicator.all_reduce(std::span<double>(sums));
  // Every server sees every gradient.
  return Staleness{static_cast<std::int64_t>(sums[0]) / channel_.roles().servers, most[0], most[1],
                   sums[1] / std::max(1.0, sums[0])};
}

}  // namespace vaecf::train
