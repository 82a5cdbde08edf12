#pragma once

#include <vaecf/data/epoch_order.hpp>
#include <vaecf/data/virtual_shards.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/model/network.hpp>
#include <vaecf/train/annealing.hpp>
#include <vaecf/train/session.hpp>
#include <vaecf/train/wire_bytes.hpp>

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vaecf::train {

class ParameterServerStep;
class ShardRows;

/// What a checkpoint holds, each as large as all weights.
enum class FlatState { weights, first_moment, second_moment };

/// What one rank needs to train: its shard (none where it is a server), the model, the optimiser and the road
/// of the gradient. Runs steps; when to do what else is for its owner. All ranks call its methods alike.
class Trainer {
 public:
  /// Reads this rank's shard and initialises the weights. The model takes batches of `min_model_rows` users
  /// at least, so that evaluation can use it as well.
  Trainer(const SessionOptions& options, const Services& services, const io::DatasetFile& dataset,
          std::int64_t min_model_rows);
  ~Trainer();

  /// Takes up `epoch` (from 0) and forgets the losses of the one before. The batches of the epoch after it
  /// are drawn in the background meanwhile.
  void start_epoch(std::int64_t epoch);
  /// Runs batch `t` of the epoch with all ranks and updates the weights. The backend may still be at work
  /// when this returns. RunError naming step, rank and terms where the loss of this step, or of an earlier
  /// one that no one knew of, is no number.
  void step(std::int64_t t);
  /// This rank's sums over the steps since start_epoch; waits for them. RunError as step.
  backend::LossSums losses();

  std::int64_t steps_per_epoch() const { return order_.steps_per_epoch(); }
  std::int64_t users_per_epoch() const { return order_.users_per_epoch(); }
  std::int64_t updates_done() const { return updates_done_; }
  std::int64_t users_seen() const { return users_seen_; }
  double beta() const { return annealing_.beta(updates_done_, users_seen_); }  ///< of the next step
  const Annealing& annealing() const { return annealing_; }
  std::int64_t shard_bytes() const;
  /// Bytes that one update moves to and from this rank's memory for weights, moments and gradients at least:
  /// each once in and once out, and the narrow copies of weights once out.
  double update_bytes() const;
  /// Returns whether gradients are reduced while backward still runs.
  bool overlaps() const;
  /// Where the shard lies and why, for the log; may be empty.
  std::string shard_description() const;
  backend::LossScale loss_scale() { return services_.backend.loss_scale(*step_); }

  /// Whether this rank computes gradients; else it serves weights to those that do.
  bool works() const;
  WireBytes wire_bytes() const;
  /// Of asynchronous updates since the last call, on all ranks, which all call it.
  std::optional<Staleness> take_staleness();

  /// With all updates done, until the next step. The first call after a step is one of all ranks.
  model::Network& model();
  /// fp32 master weights or a moment in the layout of the weights, whoever holds which part of them. All
  /// ranks call it; valid until the next call or step.
  const backend::FloatBuffer& flat(FlatState state);
  /// Writes weights or a moment from outside: `fill` gets a buffer in the layout of the weights, on every
  /// rank the same values. All ranks call it, for all three, and then go_on.
  void set_flat(FlatState state, const std::function<void(backend::FloatBuffer&)>& fill);
  /// As if so many updates had been done, over so many users. A `scale` of 0 leaves the one of a start.
  void go_on(std::int64_t updates_done, std::int64_t users_seen, backend::LossScale scale);
  /// After start_epoch, for one that was begun before: this rank's losses of the steps done so far.
  void set_losses(const backend::LossSums& sums) { services_.backend.set_losses(sums, *step_); }

  /// Phase times of the steps that follow, none of which is recorded or replayed.
  void take_times(bool on);
  /// Of the steps since take_times or the last call; waits for them.
  std::vector<model::StepSeconds> times() { return clock().read(); }
  /// The same lap by lap.
  std::vector<model::StepLap> laps() { return clock().read_laps(); }

 private:
  struct Collective;  // the step that ends in collectives, and all that it needs
  /// The numbers of step `t`, without the rule.
  backend::StepNumbers numbers(std::int64_t t) const;
  model::StepClock& clock();
  void memory_may_have_moved();
  void require_numbers(const backend::LossSums& sums) const;

  const SessionOptions& options_;
  Services services_;
  data::VirtualShards shards_;
  Range owned_;  // of the virtual shards
  data::EpochOrder order_;
  data::EpochRows drawn_;
  std::future<data::EpochRows> next_;  // drawn in the background
  std::unique_ptr<ShardRows> items_;
  std::unique_ptr<ShardRows> features_;  // null where the model knows none
  std::unique_ptr<backend::StepState> step_;
  model::Network model_;
  Annealing annealing_;
  std::unique_ptr<ParameterServerStep> served_;  // null unless distributed.strategy is parameter_server
  std::unique_ptr<Collective> collective_;       // null if it is
  std::int64_t updates_done_ = 0;
  std::int64_t users_seen_ = 0;
};

}  // namespace vaecf::train
