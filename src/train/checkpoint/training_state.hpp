#pragma once

#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/train/train.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace vaecf::train {

/// The names of the loss sums in a checkpoint.
inline constexpr std::array<const char*, 5> sum_names = {"nll", "kl", "weighted_kl", "users",
                                                         "skipped_steps"};

/// The groups of tensors in a checkpoint.
inline constexpr std::array<std::pair<StateTensor, const char*>, 3> tensor_groups = {
    {{StateTensor::weights, "weights"},
     {StateTensor::first_moment, "optimizer/first_moment"},
     {StateTensor::second_moment, "optimizer/second_moment"}}};

/// The training state in a checkpoint except tensors: everything that a run needs to continue, and the
/// identity of its dataset. training_state.cpp lists the fields once, for writing, reading and broadcasting.
struct TrainingState {
  std::int64_t updates_done = 0;
  std::int64_t epoch = 0;          ///< number of completed epochs
  std::int64_t step_in_epoch = 0;  ///< number of completed steps of the next epoch
  std::int64_t users_seen = 0;
  double best_metric = 0.0;
  std::int64_t best_epoch = 0;      ///< 0: none yet
  std::int64_t patience_count = 0;  ///< number of validations since the best epoch
  double loss_scale = 0.0;          ///< fp16 loss scale; 0 for other precisions
  std::int64_t loss_scale_good_steps = 0;
  /// The loss sums of the current epoch: for each of sum_names, the sum of each rank. Continuing them is
  /// bitwise exact only with the same number of ranks.
  std::array<std::vector<double>, sum_names.size()> epoch_sums;
  std::uint64_t file_checksum = 0;  ///< checksum of the file that the state was read from

  /// The metric that selects the best epoch, or "last", also if there is no validation.
  std::string select = "last";
  std::string configuration;
  std::int64_t items = 0;
  std::string dataset_checksum;
  std::int64_t features = 0;  ///< number of user features that the model reads; 0: none
  std::string feature_hashing;

  /// Sets the fields from `select` on, which describe what the run trains on.
  void describe(const TrainingConfig& options, const io::DatasetFile& dataset, const std::string& metric);
  /// Returns whether `metric` of the completed epoch is larger than all previous ones, and updates the best
  /// epoch or the patience count.
  bool update_best(double metric);
  /// Resets the best epoch, so that the next validation is the best so far.
  void reset_best();

  /// Gathers the sums of all ranks. Collective.
  void gather_sums(const device::LossSums& mine, comm::Communicator& communicator);
  /// Returns the sums that rank `rank` of `size` ranks continues. These are its own sums, or if the number of
  /// ranks has changed, the total on rank 0 and zeros on the others.
  device::LossSums sums_of(int rank, int size) const;
};

/// Returns the description of the feature hashing of the dataset; empty if it has no features or no
/// description.
std::string feature_hashing_of(const io::DatasetFile& dataset);

/// Returns all attributes of a checkpoint with `state`.
io::Attributes to_attributes(const TrainingConfig& options, const TrainingState& state);

/// Reads the state from the attributes of a checkpoint. Throws InputError if the format is not supported, or
/// if an attribute is missing or out of range.
TrainingState from_attributes(const std::string& path, const io::CheckpointFile& file);

/// Broadcasts the state of rank 0 to all ranks. Collective.
void broadcast(TrainingState& state, comm::Communicator& communicator);

}  // namespace vaecf::train
