#pragma once

#include <vaecf/comm/bucket_reducer.hpp>
#include <vaecf/data/epoch_order.hpp>
#include <vaecf/data/virtual_shards.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/model/model.hpp>
#include <vaecf/optim/optimizer.hpp>
#include <vaecf/train/annealing.hpp>
#include <vaecf/train/session.hpp>

#include <cstdint>
#include <memory>

namespace vaecf::train {

class OverlapChoice;

/// Sums over the users of some steps; this rank's until they are reduced.
struct LossTotals {
  double nll = 0.0;
  double kl = 0.0;
  double weighted_kl = 0.0;  ///< beta * kl, with each step's own beta
  double users = 0.0;
};

/// What one rank needs to train: its shard, the model, the optimiser and the road of the gradient. Runs
/// steps; when to do what else is for its owner. All ranks call its methods alike.
class Trainer {
 public:
  /// Reads this rank's shard and initialises the weights. The model takes batches of `min_model_rows` users
  /// at least, so that evaluation can use it as well.
  Trainer(const SessionOptions& options, const Services& services, const io::DatasetFile& dataset,
          std::int64_t min_model_rows);
  ~Trainer();

  void start_epoch(std::int64_t epoch);  ///< from 0
  /// Runs batch `t` of the epoch with all ranks and updates the weights. Adds this rank's terms to
  /// `totals`. RunError naming step and rank where the loss is no number.
  void step(std::int64_t t, LossTotals& totals);
  /// Forward, backward and reduction of step `t` without the update: gradient() is then the sum over all
  /// users of the batch, on every rank.
  backend::LossSums accumulate(std::int64_t t);

  std::int64_t steps_per_epoch() const { return order_.steps_per_epoch(); }
  std::int64_t users_per_epoch() const { return order_.users_per_epoch(); }
  std::int64_t updates_done() const { return updates_done_; }
  std::int64_t users_seen() const { return users_seen_; }
  double beta() const { return annealing_.beta(updates_done_, users_seen_); }  ///< of the next step
  const Annealing& annealing() const { return annealing_; }
  std::int64_t shard_bytes() const;

  model::Model& model() { return model_; }
  optim::Optimizer& optimizer() { return optimizer_; }
  const backend::FloatBuffer& gradient() const { return *gradients_; }

  /// Phase times of the steps that follow; they cost a synchronisation per phase.
  void take_times(bool on) { clock_ = model::StepClock(services_.backend, on); }
  const model::StepSeconds& seconds() const { return clock_.seconds(); }

 private:
  const SessionOptions& options_;
  Services services_;
  data::VirtualShards shards_;
  data::EpochOrder order_;
  Csr shard_;
  std::unique_ptr<backend::UserRows> rows_;
  std::unique_ptr<backend::Batch> batch_;
  model::Model model_;
  optim::Optimizer optimizer_;
  std::unique_ptr<backend::FloatBuffer> gradients_;
  Annealing annealing_;
  comm::BucketReducer reducer_;
  std::unique_ptr<OverlapChoice> overlap_;
  model::StepClock clock_;
  std::int64_t updates_done_ = 0;
  std::int64_t users_seen_ = 0;
};

}  // namespace vaecf::train
