#include "collective_updater.hpp"

#include <vaecf/comm/shards.hpp>

#include <span>

#include "shard_pieces.hpp"

namespace vaecf::train {
namespace {

comm::ExchangeMode mode_of(const SessionOptions& options, const Services& services) {
  return {.sharded = options.distributed.optimizer == "sharded" && services.communicator.size() > 1,
          .bf16_wire = options.distributed.wire == "bf16"};
}

}  // namespace

CollectiveUpdater::CollectiveUpdater(const SessionOptions& options, const Services& services,
                                     model::Model& model)
    : CollectiveUpdater(options, services, model,
                        bucket_plan(options, model.layout(), services.communicator.size()),
                        mode_of(options, services)) {}

CollectiveUpdater::CollectiveUpdater(const SessionOptions& options, const Services& services,
                                     model::Model& model, const comm::BucketPlan& plan,
                                     comm::ExchangeMode mode)
    : Updater(options, services, model, mode.sharded ? plan.shard_size() : model.layout().size,
              plan.padded_size()),
      clips_(options.train.clip_gradient_norm > 0.0),
      exchange_(services.communicator, services.backend, plan, mode) {
  if (!sharded()) return;
  masters_ = services.backend.make_buffer(plan.shard_size());
  pieces_ = shard_pieces(plan, services.communicator.rank(), model.layout());
}

void CollectiveUpdater::take_weights() {
  if (!sharded()) return;
  comm::pack_shard(services_.backend, exchange_.plan(), services_.communicator.rank(),
                   model_.parameters().master(), *masters_);
}

void CollectiveUpdater::set_flat(FlatState state, const std::function<void(backend::FloatBuffer&)>& fill) {
  if (state == FlatState::weights) {
    fill(model_.parameters().master());
    services_.backend.weights_changed(model_.parameters());
    return take_weights();
  }
  backend::FloatBuffer& moment =
      state == FlatState::first_moment ? optimizer_.first_moment() : optimizer_.second_moment();
  if (!sharded()) return fill(moment);
  services_.backend.fill(*gradients_, 0.0F);
  fill(*gradients_);
  comm::pack_shard(services_.backend, exchange_.plan(), services_.communicator.rank(), *gradients_, moment);
}

void CollectiveUpdater::round_weights() {
  if (!sharded() || !exchange_.mode().bf16_wire) return;
  round_to_bf16();
}

backend::GradientReady CollectiveUpdater::begin(bool overlap) {
  if (alone()) return {};
  exchange_.begin(*gradients_, overlap);
  return [this](Range range, backend::Completion done) { exchange_.ready(range, done); };
}

void CollectiveUpdater::look_at(const backend::FloatBuffer& gradients, Range range,
                                backend::StepState& step) {
  services_.backend.check_gradients(gradients, range, step);
  services_.backend.add_gradient_squares(gradients, range, step);
}

void CollectiveUpdater::add_up(backend::FloatBuffer& one) {
  services_.backend.wait_for(services_.communicator.wait(services_.communicator.start_all_reduce_sum(
      std::span<float>(one.data(), 1), services_.backend.mark())));
}

void CollectiveUpdater::await_sums(backend::StepState& step) {
  for (std::int64_t b = 0; !alone() && b < exchange_.plan().buckets(); ++b) {
    exchange_.await_sum(b);
    if (sharded()) look_at(*exchange_.gradient_shard(), exchange_.plan().packed(b), step);
  }
  if (!sharded()) look_at(*gradients_, {0, model_.layout().size}, step);
  if (alone()) return;
  // No part may be updated before all ranks know of an overflow anywhere, be it in one rank's loss alone.
  if (services_.backend.precision() == backend::Precision::fp16) add_up(services_.backend.overflow(step));
  if (sharded() && clips_) add_up(services_.backend.gradient_squares(step));
}

void CollectiveUpdater::sum(backend::StepState& step) {
  await_sums(step);
  if (sharded()) {
    comm::unpack_shards(services_.communicator, services_.backend, exchange_.plan(),
                        *exchange_.gradient_shard(), *gradients_);
  }
  if (!alone()) exchange_.finish();
}

void CollectiveUpdater::update_bucket(std::int64_t bucket, backend::StepState& step,
                                      model::StepClock& clock) {
  optimizer_.step_part(step, pieces_[static_cast<std::size_t>(bucket)], *exchange_.gradient_shard(),
                       *masters_);
  clock.lap(&model::StepSeconds::update);
  exchange_.send_weights(bucket, *masters_, model_.parameters());
  clock.lap(&model::StepSeconds::reduce);
}

void CollectiveUpdater::update_shard(backend::StepState& step, model::StepClock& clock) {
  const bool sums_first = clips_ || services_.backend.precision() == backend::Precision::fp16;
  if (sums_first) await_sums(step);
  for (std::int64_t b = 0; b < exchange_.plan().buckets(); ++b) {
    if (!sums_first) exchange_.await_sum(b);
    clock.lap(&model::StepSeconds::reduce);
    update_bucket(b, step, clock);
  }
  exchange_.finish();
  clock.lap(&model::StepSeconds::reduce);
}

void CollectiveUpdater::update(backend::StepState& step, model::StepClock& clock,
                               std::span<const backend::Layer> done) {
  if (sharded()) return update_shard(step, clock);
  await_sums(step);
  if (!alone()) exchange_.finish();
  clock.lap(&model::StepSeconds::reduce);
  optimizer_.step(step, *gradients_, model_.parameters(), done);
  clock.lap(&model::StepSeconds::update);
}

const backend::FloatBuffer& CollectiveUpdater::flat(FlatState state) {
  const backend::FloatBuffer& master = model_.parameters().master();
  if (!sharded()) {
    if (state == FlatState::weights) return master;
    return state == FlatState::first_moment ? optimizer_.first_moment() : optimizer_.second_moment();
  }
  if (state == FlatState::weights && !exchange_.mode().bf16_wire) return master;
  const backend::FloatBuffer* shard = masters_.get();
  if (state == FlatState::first_moment) shard = &optimizer_.first_moment();
  if (state == FlatState::second_moment) shard = &optimizer_.second_moment();
  // Between steps the gradient's memory is free.
  comm::unpack_shards(services_.communicator, services_.backend, exchange_.plan(), *shard, *gradients_);
  return *gradients_;
}

/// Each rank sends all but its own part on its way to the owners, and as much of what they made of it.
WireBytes CollectiveUpdater::wire_bytes() const {
  const double ranks = services_.communicator.size();
  const bool narrow = exchange_.mode().bf16_wire;
  const auto elements = static_cast<double>(sharded() || narrow ? exchange_.plan().padded_size()
                                                                : exchange_.plan().flat_size());
  const double link = 2.0 * (ranks - 1.0) / ranks * elements * (narrow ? 2.0 : 4.0);
  return {.total = ranks * link, .worker_out = link, .worker_in = link};
}

}  // namespace vaecf::train
