#pragma once

#include <vaecf/base/timeline.hpp>
#include <vaecf/data/epoch_order.hpp>
#include <vaecf/data/shards.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/train/annealing.hpp>
#include <vaecf/train/engine.hpp>
#include <vaecf/train/session.hpp>

#include <cstdint>
#include <future>
#include <vector>

namespace vaecf::train {

/// Trains with all ranks on the engine of `services`: draws the batches, counts updates and users, and runs
/// steps; when to do what else is for its owner. All ranks call its methods alike.
class Trainer {
 public:
  /// Reads this rank's shard and initializes the weights. The model takes batches of `min_model_rows` users
  /// at least, so that evaluation can use it as well. An engine serves one trainer at a time.
  Trainer(const SessionOptions& options, const Services& services, const io::DatasetFile& dataset,
          std::int64_t min_model_rows);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Takes up `epoch` (from 0) and forgets the losses of the one before. The batches of the epoch after it
  /// are drawn in the background meanwhile.
  void start_epoch(std::int64_t epoch);
  /// Runs batch `t` of the epoch with all ranks and updates the weights. The device may still be at work when
  /// this returns. Throws RunError naming step, rank and terms if the loss of this step, or of an earlier one
  /// that was not known yet, is no number.
  void step(std::int64_t t);
  /// Waits for all steps, and returns this rank's sums since start_epoch. Throws RunError as step() does.
  device::LossSums losses();
  /// Continues an epoch that was begun before: this rank's losses of the steps done so far. After
  /// start_epoch.
  void set_losses(const device::LossSums& sums) { services_.engine.set_sums({sums, loss_scale()}); }
  device::LossScale loss_scale() { return services_.engine.sums().scale; }
  /// Continues as if so many updates had been done, over so many users. A `scale` of 0 leaves the one of a
  /// start.
  void go_on(std::int64_t updates_done, std::int64_t users_seen, device::LossScale scale);

  std::int64_t steps_per_epoch() const { return order_.steps_per_epoch(); }
  std::int64_t users_per_epoch() const { return order_.users_per_epoch(); }
  std::int64_t updates_done() const { return updates_done_; }
  std::int64_t users_seen() const { return users_seen_; }
  double beta() const { return annealing_.beta(updates_done_, users_seen_); }  ///< of the next step
  const Annealing& annealing() const { return annealing_; }
  TrainingFacts facts() const { return services_.engine.training(); }

  /// Returns the network with all updates done, until the next step. Collective after a step.
  model::Model& model() { return services_.engine.model(); }

 private:
  void require_numbers(const device::LossSums& sums) const;

  const SessionOptions& options_;
  Services services_;
  data::VirtualShards shards_;
  Range owned_;  // of the virtual shards
  data::EpochOrder order_;
  data::EpochRows drawn_;
  std::future<data::EpochRows> next_;  // drawn in the background
  Annealing annealing_;
  std::int64_t updates_done_ = 0;
  std::int64_t users_seen_ = 0;
};

/// Adds laps of steps to a timeline; the first of them followed `updates_before` updates.
void add_laps(Timeline& timeline, const std::vector<model::StepLap>& laps, std::int64_t updates_before);

}  // namespace vaecf::train
