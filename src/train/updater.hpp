#pragma once

#include <vaecf/comm/gradient_exchange.hpp>
#include <vaecf/model/model.hpp>
#include <vaecf/optim/optimizer.hpp>
#include <vaecf/train/session.hpp>
#include <vaecf/train/trainer.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace vaecf::train {

/// From each rank's gradient to the same new weights on all ranks: sum and update, as distributed.optimizer
/// and distributed.wire say. Replicated, every rank updates all weights. Sharded, each has the masters and
/// moments of its part of every bucket alone. A world of one is replicated, whatever is asked.
class Updater {
 public:
  Updater(const SessionOptions& options, const Services& services, model::Model& model);

  /// Parameters whose size is a multiple of this have room for the padding of buckets.
  static std::int64_t size_multiple(const comm::Communicator& communicator);

  const optim::Optimizer& optimizer() const { return optimizer_; }
  backend::FloatBuffer& gradients() { return *gradients_; }
  /// What lets the backend update the largest layers by itself; only where there is nothing to sum.
  backend::FusedUpdate fused_update();

  /// The weights were written from outside: the masters follow.
  void take_weights();
  /// As Trainer::set_flat.
  void set_flat(FlatState state, const std::function<void(backend::FloatBuffer&)>& fill);
  /// Makes of the weights, just written in full precision, what an update would have left to compute with.
  void round_weights();
  /// Starts a step. Returns who hears of gradients that are final; empty where nobody needs to.
  backend::GradientReady begin(bool overlap);
  /// gradients() becomes the sum over all ranks, on all ranks; ends the step without an update.
  void sum(backend::StepState& step);
  /// Ends the step with the update of all layers but `done`.
  void update(backend::StepState& step, model::StepClock& clock, std::span<const backend::Layer> done);

  /// As Trainer::flat.
  const backend::FloatBuffer& flat(FlatState state);
  bool sharded() const { return exchange_.mode().sharded; }

 private:
  bool alone() const { return services_.communicator.size() == 1; }
  /// For overflows and, where the gradient is clipped, for its norm.
  void look_at(const backend::FloatBuffer& gradients, Range range, backend::StepState& step);
  /// `one` element becomes the sum over ranks.
  void add_up(backend::FloatBuffer& one);
  void await_sums(backend::StepState& step);
  void update_bucket(std::int64_t bucket, backend::StepState& step, model::StepClock& clock);
  void update_shard(backend::StepState& step, model::StepClock& clock);

  Services services_;
  model::Model& model_;
  comm::GradientExchange exchange_;
  optim::Optimizer optimizer_;
  bool clips_;
  std::unique_ptr<backend::FloatBuffer> gradients_;
  std::unique_ptr<backend::FloatBuffer> masters_;  // this rank's shard of the weights; null where replicated
  std::vector<std::vector<optim::UpdatePiece>> pieces_;  // by bucket, of the shard
};

}  // namespace vaecf::train
