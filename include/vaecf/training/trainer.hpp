#pragma once

#include <vaecf/base/timeline.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/context/context.hpp>
#include <vaecf/data/shards.hpp>
#include <vaecf/device/step_timer.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/models/trainable_model.hpp>
#include <vaecf/training/options.hpp>
#include <vaecf/training/state_copy.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vaecf::training {

/// The communication volume of one step in bytes of payload. Collectives are counted as on a ring; the
/// library may use another algorithm.
struct CommVolume {
  double total = 0.0;        ///< bytes sent by all ranks together
  double worker_out = 0.0;   ///< bytes sent by one worker
  double worker_in = 0.0;    ///< bytes received by one worker
  double server_out = 0.0;   ///< bytes sent by one server
  double server_in = 0.0;    ///< bytes received by one server
  double activations = 0.0;  ///< part of worker_out: activations exchanged in a model-parallel group
};

/// The staleness of gradients with asynchronous updates of a parameter server.
struct Staleness {
  std::int64_t updates = 0;  ///< number of gradients applied, each of one worker
  /// Maximum number of steps by which a worker was ahead of the slowest one when a server sent it weights.
  std::int64_t max_lead = 0;
  std::int64_t max_age = 0;  ///< maximum number of updates between a worker's weights and its gradient
  double mean_age = 0.0;     ///< mean number of updates between a worker's weights and its gradient
};

/// Properties of one rank's part of a training, fixed when it starts: memory and bytes moved per step.
struct TrainingFacts {
  bool is_worker = true;        ///< this rank is a worker, which computes gradients; otherwise a server
  bool overlaps = false;        ///< gradients are reduced during the backward pass
  std::int64_t data_bytes = 0;  ///< memory of this rank's training users
  /// Location of these users in memory and the reason for it, as one line for the log; may be empty.
  std::string data_description = {};
  std::int64_t flat_elements = 0;  ///< number of elements of a flat buffer, including padding
  /// Minimum memory traffic of one update on this rank in bytes: weights, moments and gradients are each read
  /// and written once, 16-bit copies of weights are written once. Gradients that are not stored, as in fused
  /// updates, do not count.
  double update_bytes = 0.0;
  CommVolume comm_volume;    ///< communication volume of a step
  Range prior_tensors = {};  ///< indices of the tensors in StateTensor::prior; empty if there is none
};

/// Writes stored rows `rows` of tensor index `tensor` from `values` (row-major).
using WriteRows = std::function<void(int tensor, Range rows, std::span<const float> values)>;

/// The weight of the KL term (KL annealing): beta = min(cap, t / T), where t is the progress before the
/// update. T is given in updates, in users seen, or in epochs. T epochs are T * steps_per_epoch updates, so
/// that the schedule does not depend on the batch size; with T in updates it does.
class Annealing {
 public:
  /// `automatic_epochs`: T in epochs if options.epochs is automatic. Otherwise exactly one of options.steps,
  /// options.epochs and options.users must be above 0.
  Annealing(const AnnealingOptions& options, double automatic_epochs, std::int64_t steps_per_epoch)
      : cap_(options.cap),
        automatic_epochs_(automatic_epochs),
        updates_(options.steps > 0.0 ? options.steps
                                     : (automatic_epochs > 0.0 ? automatic_epochs : options.epochs) *
                                           static_cast<double>(steps_per_epoch)),
        users_(options.users) {}

  /// Returns beta for the update after `updates_done` updates over `users_seen` users.
  double beta(std::int64_t updates_done, std::int64_t users_seen) const {
    return std::min(cap_, users_ > 0.0 ? static_cast<double>(users_seen) / users_
                                       : static_cast<double>(updates_done) / updates_);
  }

  /// Returns whether a run of `updates` updates, with `users_before_last` users before the last one, uses
  /// beta = cap at least once.
  bool reaches_cap(std::int64_t updates, std::int64_t users_before_last) const {
    return updates > 0 && beta(updates - 1, users_before_last) >= cap_;
  }
  double cap() const { return cap_; }
  /// Returns T in epochs if it is automatic, else 0.
  double automatic_epochs() const { return automatic_epochs_; }

 private:
  double cap_;
  double automatic_epochs_;
  double updates_;  // T in updates; used if users_ is 0
  double users_;    // T in users, or 0
};

class Strategy;
class TrainingData;
struct ParameterGroup;

/// The training of one rank: samples the batches, runs the steps on the device of the run, counts updates
/// and users, and gives access to the state of the training. The caller decides when to validate and to write
/// checkpoints. All ranks must call its functions in the same order.
class Trainer {
 public:
  /// Reads this rank's training users and initializes the weights. The model accepts batches of
  /// `min_model_rows` users or more, for evaluation. Collective. `options` must outlive this object.
  Trainer(const Context& context, const Options& options, const io::DatasetFile& dataset,
          std::int64_t min_model_rows);
  /// Frees the memory of the training; blocks until background sampling has finished.
  ~Trainer();

  /// Starts epoch `epoch` (counted from 0), to continue with step `t`, and clears the loss sums. Blocks until
  /// its batches are on the device; a background thread then samples, checks and uploads those of the next
  /// pass over the users. An epoch is one pass, except for models that update parameter groups in turn
  /// (models::TrainedKind::passes).
  void start_epoch(std::int64_t epoch, std::int64_t t = 0);
  /// Runs step `t` of the epoch (counted from 0) and updates the weights. Collective. The device may still
  /// be running when this returns. Throws RunError with step, rank and loss terms if the loss of this or an
  /// earlier step is not finite; the error may be reported some steps late.
  void step(std::int64_t t);
  /// Waits for all steps, and returns this rank's loss sums since start_epoch(). Throws RunError if the loss
  /// of a step was not finite.
  device::LossSums losses();
  /// Restores this rank's loss sums of the steps of the current epoch that a checkpoint contains. Must be
  /// called after start_epoch().
  void set_losses(const device::LossSums& sums);
  /// Waits for all steps, and returns the loss scale; its value is used in fp16 only.
  device::LossScale loss_scale();
  /// Waits for all steps, and returns sum ||W||^2 over the tensors with weight decay. Collective.
  double sum_of_squares();
  /// Continues annealing with the automatic T of the run that is resumed, whose number of epochs may have
  /// been another; 0: T is not automatic.
  void restore_annealing(double automatic_epochs);
  /// Restores the numbers of updates done and of users seen over all ranks. Unless `scale.scale` is 0, also
  /// restores the loss scale and clears the loss sums.
  void restore_progress(std::int64_t updates_done, std::int64_t users_seen, device::LossScale scale);

  std::int64_t steps_per_epoch() const { return passes() * sampler_.steps_per_epoch(); }
  std::int64_t users_per_epoch() const { return passes() * sampler_.users_per_epoch(); }
  /// Returns the number of users in the first `t` steps of an epoch.
  std::int64_t users_before(std::int64_t t) const;
  /// Returns the number of users in the last step of an epoch.
  std::int64_t users_of_last_step() const { return sampler_.batch_users(sampler_.steps_per_epoch() - 1); }
  std::int64_t updates_done() const { return updates_done_; }
  std::int64_t users_seen() const { return users_seen_; }
  /// Returns the number of updates done of each parameter group.
  std::vector<std::int64_t> updates_by_parameter_group() const;
  /// Returns the KL weight of the next step; 0 if each user has a weight of its own.
  double beta() const;
  const Annealing& annealing() const { return annealing_; }
  TrainingFacts facts() const;
  const Options& options() const { return options_; }

  /// Returns the network with the weights of all updates so far; valid until the next step. The first call
  /// after a step is collective.
  models::Model& model();

  /// Allocates a copy of the state: on the device, or in host memory if the device has too little to spare.
  /// With `spare_only`, returns null in the latter case. Throws std::bad_alloc if host memory is full.
  std::unique_ptr<StateCopy> make_state_copy(bool spare_only);
  /// Gathers fp32 master weights, moments and prior, and copies them to `copy`, which make_state_copy() made;
  /// null on ranks that need no copy. No thread may read `copy` meanwhile. Collective.
  void copy_state(StateCopy* copy);
  /// Copies stored rows `rows` of tensor `tensor` of weights, moments or prior to `to`, row-major. The
  /// optimizer must not be sharded. Blocks.
  void read_state_rows(StateTensor state, int tensor, Range rows, std::span<float> to);
  /// Overwrites weights, a moment or the prior with the rows that `fill` writes, which must be equal on all
  /// ranks that store them. With `round_weights`, weights are rounded to bf16 if updates communicate them in
  /// bf16, as after an update. Collective.
  void write_state(StateTensor state, bool round_weights, const std::function<void(const WriteRows&)>& fill);

  /// Switches timing of step phases on or off. Timed steps do not use captured graphs.
  void enable_timing(bool on);
  /// Waits for all steps, and returns the phase intervals of those since the last call or
  /// enable_timing(true).
  std::vector<device::PhaseInterval> take_phase_intervals() { return timer_.take_intervals(); }
  /// Returns the staleness of asynchronous updates since the last call, equal on all ranks; nullopt if
  /// updates are not asynchronous. Collective.
  std::optional<Staleness> take_staleness();

 private:
  void require_finite_loss(const device::LossSums& sums) const;
  std::int64_t passes() const { return static_cast<std::int64_t>(parameter_groups_.size()); }
  /// Starts pass `pass`, counted over all epochs; does nothing if it is the current one.
  void start_pass(std::int64_t pass);
  /// Samples `pass`, and copies its batches to the device.
  void upload(std::int64_t pass);
  /// Returns the parameter group of the next step.
  ParameterGroup next_parameter_group() const;
  /// Returns the state of the training: all_state_tensors, without the prior if the model has none.
  std::span<const StateTensor> state_tensors() const;

  Context context_;
  const Options& options_;
  std::shared_ptr<const comm::RankGrid> grid_;
  data::VirtualShards shards_;
  Range owned_;  // virtual shards of this rank's model-parallel group
  data::DistributedBatchSampler sampler_;
  int sampling_threads_;
  bool pads_;                          // batches, so that all of one size have one captured graph
  std::vector<int> parameter_groups_;  // parameter group of each pass of an epoch
  std::int64_t epoch_ = -1;            // the current one
  std::int64_t pass_ = -1;             // the current one
  std::int64_t next_pass_ = -1;        // the one that was or is uploaded; -1: none
  device::StepTimer timer_;
  std::unique_ptr<TrainingData> data_;
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<device::Exporter> exporter_;  // of all state copies
  std::future<void> upload_;                    // of `next_pass_`
  Annealing annealing_;
  std::int64_t updates_done_ = 0;
  std::int64_t users_seen_ = 0;
};

/// Adds the phases of steps to a timeline; the first step followed `updates_before` updates.
void add_phase_intervals(Timeline& timeline, const std::vector<device::PhaseInterval>& intervals,
                         std::int64_t updates_before);

}  // namespace vaecf::training
