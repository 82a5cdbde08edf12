#pragma once

#include <vaecf/io/checkpoint.hpp>
#include <vaecf/model/model.hpp>
#include <vaecf/train/session.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::train {

inline constexpr std::int64_t checkpoint_format = 1;

/// Where a run stands: what a checkpoint holds beside tensors.
struct RunState {
  std::int64_t updates_done = 0;
  std::int64_t epoch = 0;          ///< epochs done
  std::int64_t step_in_epoch = 0;  ///< steps done of the next one
  std::int64_t users_seen = 0;
  double best_metric = 0.0;
  std::int64_t best_epoch = 0;  ///< 0: none yet
  std::int64_t patience_count = 0;
  backend::LossScale loss_scale{0.0F, 0};  ///< 0: it had none, not being fp16
  /// Of the epoch under way, by rank. Their total is exact only for as many ranks as there were.
  std::vector<backend::LossSums> epoch_sums = {};
  /// The metric that tells the best epoch; "last" where none does, also for want of validation.
  std::string select = "last";

  /// What rank `rank` of `size` goes on adding to: its own sums, or, where the ranks are others than before,
  /// all of them on rank 0.
  backend::LossSums sums_of(int rank, int size) const;
};

/// What a checkpoint remembers of the dataset.
struct DatasetMark {
  std::string fingerprint;
  std::string feature_hashing;
};

/// All attributes of a checkpoint; of features only where the model knows some.
io::Attributes attributes_of(const SessionOptions& options, const RunState& state, const DatasetMark& dataset,
                             const model::Model& model);

/// InputError where an attribute is missing or makes no sense.
RunState state_of(const std::string& path, const io::CheckpointFile& file);

/// Rank 0's state on all ranks.
void broadcast(RunState& state, comm::Communicator& communicator);

/// InputError unless this version reads the file's format.
void require_format(const std::string& path, const io::CheckpointFile& file);

}  // namespace vaecf::train
