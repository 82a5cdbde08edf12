#include "updater.hpp"

#include <vaecf/comm/shards.hpp>

#include <algorithm>
#include <span>

namespace vaecf::train {
namespace {

comm::BucketPlan plan_of(const SessionOptions& options, const Services& services, const model::Model& model) {
  const double elements = options.distributed.bucket_mib * 1048576.0 / sizeof(float);
  return {model.layout().size, std::max<std::int64_t>(1, static_cast<std::int64_t>(elements)),
          services.communicator.size()};
}

comm::ExchangeMode mode_of(const SessionOptions& options, const Services& services) {
  return {.sharded = options.distributed.optimizer == "sharded" && services.communicator.size() > 1,
          .bf16_wire = options.distributed.wire == "bf16"};
}

/// What of each tensor lies in this rank's part of bucket `b`, as elements of its shard.
std::vector<optim::UpdatePiece> pieces_of(const comm::BucketPlan& plan, std::int64_t b, int rank,
                                          const backend::ParameterLayout& layout) {
  std::vector<optim::UpdatePiece> pieces;
  const Range part = plan.part(b, rank);
  const std::int64_t to_shard = plan.packed(b).begin - part.begin;
  for (const backend::TensorLayout& tensor : layout.tensors) {
    const std::int64_t begin = std::max(part.begin, tensor.range.begin);
    const std::int64_t end = std::min(part.end, tensor.range.end);
    if (begin < end) pieces.push_back({{begin + to_shard, end + to_shard}, tensor.spec.decays});
  }
  return pieces;
}

}  // namespace

Updater::Updater(const SessionOptions& options, const Services& services, model::Model& model)
    : services_(services),
      model_(model),
      exchange_(services.communicator, services.backend, plan_of(options, services, model),
                mode_of(options, services)),
      optimizer_(options.optimizer, options.train.weight_decay, services.backend,
                 sharded() ? exchange_.plan().shard_size() : model.layout().size,
                 options.train.clip_gradient_norm),
      clips_(options.train.clip_gradient_norm > 0.0),
      gradients_(services.backend.make_buffer(exchange_.plan().padded_size())) {
  if (!sharded()) return;
  const comm::BucketPlan& plan = exchange_.plan();
  masters_ = services.backend.make_buffer(plan.shard_size());
  for (std::int64_t b = 0; b < plan.buckets(); ++b) {
    pieces_.push_back(pieces_of(plan, b, services.communicator.rank(), model.layout()));
  }
}

std::int64_t Updater::size_multiple(const comm::Communicator& communicator) {
  return comm::BucketPlan::unit * communicator.size();
}

backend::FusedUpdate Updater::fused_update() {
  return {model_.parameters(), optimizer_.first_moment(), optimizer_.second_moment()};
}

void Updater::take_weights() {
  if (!sharded()) return;
  comm::pack_shard(services_.backend, exchange_.plan(), services_.communicator.rank(),
                   model_.parameters().master(), *masters_);
}

void Updater::set_flat(FlatState state, const std::function<void(backend::FloatBuffer&)>& fill) {
  services_.backend.finish_updates(model_.parameters());
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

void Updater::round_weights() {
  if (!sharded() || !exchange_.mode().bf16_wire) return;
  backend::FloatBuffer& weights = model_.parameters().master();
  const Range all = {0, exchange_.plan().padded_size()};
  const auto rounded = services_.backend.make_narrow_buffer(all.size());
  services_.backend.narrow(weights, all, *rounded, 0);
  services_.backend.widen(*rounded, all, weights, 0);
  services_.backend.weights_changed(model_.parameters());
}

backend::GradientReady Updater::begin(bool overlap) {
  if (alone()) return {};
  exchange_.begin(*gradients_, overlap);
  return [this](Range range, backend::Completion done) { exchange_.ready(range, done); };
}

void Updater::look_at(const backend::FloatBuffer& gradients, Range range, backend::StepState& step) {
  services_.backend.check_gradients(gradients, range, step);
  services_.backend.add_gradient_squares(gradients, range, step);
}

void Updater::add_up(backend::FloatBuffer& one) {
  services_.backend.wait_for(services_.communicator.wait(services_.communicator.start_all_reduce_sum(
      std::span<float>(one.data(), 1), services_.backend.mark())));
}

void Updater::await_sums(backend::StepState& step) {
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

void Updater::sum(backend::StepState& step) {
  await_sums(step);
  if (sharded()) {
    comm::unpack_shards(services_.communicator, services_.backend, exchange_.plan(),
                        *exchange_.gradient_shard(), *gradients_);
  }
  if (!alone()) exchange_.finish();
}

void Updater::update_bucket(std::int64_t bucket, backend::StepState& step, model::StepClock& clock) {
  optimizer_.step_part(step, pieces_[static_cast<std::size_t>(bucket)], *exchange_.gradient_shard(),
                       *masters_);
  clock.lap(&model::StepSeconds::update);
  exchange_.send_weights(bucket, *masters_, model_.parameters());
  clock.lap(&model::StepSeconds::reduce);
}

void Updater::update_shard(backend::StepState& step, model::StepClock& clock) {
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

void Updater::update(backend::StepState& step, model::StepClock& clock,
                     std::span<const backend::Layer> done) {
  if (sharded()) return update_shard(step, clock);
  await_sums(step);
  if (!alone()) exchange_.finish();
  clock.lap(&model::StepSeconds::reduce);
  optimizer_.step(step, *gradients_, model_.parameters(), done);
  clock.lap(&model::StepSeconds::update);
}

const backend::FloatBuffer& Updater::flat(FlatState state) {
  services_.backend.finish_updates(model_.parameters());
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

}  // namespace vaecf::train
