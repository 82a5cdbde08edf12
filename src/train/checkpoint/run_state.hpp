#pragma once

#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/train/session.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace vaecf::train {

/// The sums of losses that a checkpoint holds, by name.
inline constexpr std::array<const char*, 5> sum_names = {"nll", "kl", "weighted_kl", "users",
                                                         "skipped_steps"};

/// The groups of tensors in a checkpoint.
inline constexpr std::array<std::pair<FlatState, const char*>, 3> tensor_groups = {
    {{FlatState::weights, "weights"},
     {FlatState::first_moment, "optimizer/first_moment"},
     {FlatState::second_moment, "optimizer/second_moment"}}};

/// The state of a run and of its data: all that a checkpoint holds beside tensors, and that a run needs
/// to continue. run_state.cpp lists the fields once, for writing, reading and the way to other ranks.
struct RunState {
  std::int64_t updates_done = 0;
  std::int64_t epoch = 0;          ///< epochs done
  std::int64_t step_in_epoch = 0;  ///< steps done of the next one
  std::int64_t users_seen = 0;
  double best_metric = 0.0;
  std::int64_t best_epoch = 0;      ///< 0: none yet
  std::int64_t patience_count = 0;  ///< validations since then
  double loss_scale = 0.0;          ///< 0: it had none, not being fp16
  std::int64_t loss_scale_good_steps = 0;
  /// Sums of losses of the epoch under way: for each of sum_names, the sum of each rank. Their total is exact
  /// only for as many ranks as there were.
  std::array<std::vector<double>, sum_names.size()> epoch_sums;
  std::uint64_t file_checksum = 0;  ///< of the file that the state was read from

  /// The metric that tells the best epoch; "last" if none does, also for want of validation.
  std::string select = "last";
  std::string configuration;
  std::int64_t items = 0;
  std::string dataset_checksum;
  std::int64_t features = 0;  ///< of users, that the model reads; 0: none
  std::string feature_hashing;

  /// Notes what the run trains on: all fields from select on.
  void describe(const SessionOptions& options, const io::DatasetFile& dataset, const std::string& metric);
  /// Returns true if `metric` of the epoch just done is the best so far: larger than all before it.
  bool better(double metric);
  /// The best epoch is lost: the next one is the best so far.
  void forget_best();

  /// Gathers the sums of all ranks. Collective.
  void gather_sums(const device::LossSums& mine, comm::Communicator& communicator);
  /// Returns what rank `rank` of `size` continues to add to: its own sums, or, if the number of ranks has
  /// changed, all of them on rank 0.
  device::LossSums sums_of(int rank, int size) const;
};

/// Returns how the dataset's users were hashed into columns of features; empty if it has none, or does not
/// say.
std::string feature_hashing_of(const io::DatasetFile& dataset);

/// Returns all attributes of a checkpoint.
io::Attributes attributes_of(const SessionOptions& options, const RunState& state);

/// Throws InputError if this version does not read the file's format, or if an attribute is missing or makes
/// no sense.
RunState state_of(const std::string& path, const io::CheckpointFile& file);

/// Gives rank 0's state to all ranks.
void broadcast(RunState& state, comm::Communicator& communicator);

}  // namespace vaecf::train
