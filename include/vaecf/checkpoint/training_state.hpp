#pragma once

#include <vaecf/comm/communicator.hpp>
#include <vaecf/context/context.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/models/model.hpp>
#include <vaecf/training/options.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vaecf::checkpoint {

/// The names of the loss sums in a checkpoint.
inline constexpr std::array<const char*, 5> sum_names = {"nll", "kl", "weighted_kl", "users",
                                                         "skipped_steps"};

/// The training state in a checkpoint except tensors: everything that a run needs to continue, and the
/// identity of its dataset. A Snapshot writes it, a CheckpointReader reads it; training_state.cpp lists the
/// fields once for both.
struct TrainingState {
  std::int64_t updates_done = 0;
  std::int64_t epoch = 0;          ///< number of completed epochs
  std::int64_t step_in_epoch = 0;  ///< number of completed steps of the next epoch
  std::int64_t users_seen = 0;
  double best_metric = 0.0;
  std::int64_t best_epoch = 0;              ///< 0: none yet
  std::int64_t validations_since_best = 0;  ///< early stopping compares it with train.patience
  double annealing_epochs = 0.0;            ///< T of KL annealing in epochs if it is automatic, else 0
  double loss_scale = 0.0;                  ///< fp16 loss scale; 0 for other precisions
  std::int64_t loss_scale_good_steps = 0;
  /// The loss sums of the current epoch: for each of sum_names, the sum of each rank. Continuing them is
  /// bitwise exact only with the same number of ranks.
  std::array<std::vector<double>, sum_names.size()> epoch_sums;
  std::uint64_t file_checksum = 0;  ///< checksum of the file that the state was read from

  /// The metric that selects the best epoch, or "last", also if there is no validation.
  std::string select = "last";
  std::string configuration;
  std::int64_t items = 0;
  std::int64_t new_items = 0;  ///< those of the dataset; not read from checkpoints
  std::string weights;         ///< weights_of() the dataset; not read from checkpoints
  std::string dataset_checksum;
  std::int64_t features = 0;  ///< number of user features that the model reads; 0: none
  std::string feature_hashing;
  /// The part of the dataset that checkpoints contain, on rank 0. It is not read from checkpoints.
  std::shared_ptr<const io::DatasetSummary> dataset;

  /// Sets the selecting metric, the configuration, and the items, checksum and features of the dataset; also
  /// its summary, unless that is set. Collective.
  void describe(const Context& context, const models::ModelOptions& options, const io::DatasetFile& dataset,
                const std::string& configuration_text, const std::string& metric);
  /// Returns whether `metric` of the completed epoch is larger than all previous ones, and updates the best
  /// epoch or counts the validations since then.
  bool update_best(double metric);
  /// Resets the best epoch, so that the next validation is the best so far.
  void reset_best();

  /// Gathers the sums of all ranks. Collective.
  void gather_sums(const device::LossSums& mine, comm::Communicator& communicator);
  /// Returns the sums that rank `rank` of `size` ranks continues. These are its own sums, or if the number of
  /// ranks has changed, the total on rank 0 and zeros on the others.
  device::LossSums sums_of(int rank, int size) const;
};

/// Returns the attributes of a checkpoint with `state`.
io::Attributes checkpoint_attributes(const training::Options& options, const TrainingState& state);

/// Throws InputError if the model of a checkpoint may compute what this version does not implement: if a key
/// of `model` in its configuration is unknown.
void require_known_model(const io::CheckpointFile& file);

/// Reads the state of a checkpoint on the calling rank. Throws InputError if an attribute is missing or out
/// of range, and as require_known_model().
TrainingState read_training_state(const std::string& path, const io::CheckpointFile& file);

/// Broadcasts the state of rank 0 to all ranks. Collective.
void broadcast(TrainingState& state, comm::Communicator& communicator);

}  // namespace vaecf::checkpoint
