#pragma once

#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/model/model.hpp>
#include <vaecf/train/train.hpp>
#include <vaecf/train/trainer.hpp>

#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint/training_state.hpp"

namespace vaecf::train {

/// Reads a checkpoint on rank 0 and broadcasts it to all ranks; any number of ranks may have written it. All
/// ranks must call the functions in the same order. Errors are InputErrors, thrown on all ranks.
class CheckpointReader {
 public:
  /// Reads the state. Throws InputError if the file is not a valid checkpoint.
  CheckpointReader(const std::string& path, const RunContext& context);

  const TrainingState& state() const { return state_; }
  /// Throws InputError if the checkpoint was trained on another dataset, or with other user features than the
  /// model of `options` has.
  void require_trained_on(const TrainingConfig& options, const io::DatasetFile& dataset) const;
  /// Reads the weights. Throws InputError if tensors are missing or have other shapes than those of the
  /// model.
  void load_weights(model::Model& model);
  /// Restores weights, moments, counts and loss scale of the trainer. The batches and losses of the current
  /// epoch are not restored (Trainer::start_epoch, set_losses). Throws InputError if the tensors or the
  /// counts do not match the trainer.
  void restore(Trainer& trainer);

 private:
  /// Passes the tensors of `group` to `write` on all ranks, in blocks of rows.
  void read(const std::string& group, const std::vector<device::TensorSpec>& specs, const WriteRows& write);

  std::string path_;
  RunContext context_;
  std::optional<io::CheckpointFile> file_;  // on rank 0
  TrainingState state_;
};

/// Returns whether options.resume_from is in the checkpoint folder of this run. If so, the run continues its
/// log and checkpoints; otherwise it starts new ones. Collective; only rank 0 accesses the file.
bool resumes_in_place(const TrainingConfig& options, comm::Communicator& communicator);

/// Makes best.h5 contain the best epoch of `state`. If that epoch is lost, or `select` has changed, logs a
/// warning, moves best.h5 to checkpoints.old and resets the best epoch in `state`. Collective.
void reconcile_best_checkpoint(const TrainingConfig& options, const RunContext& context,
                               const std::string& select, TrainingState& state);

}  // namespace vaecf::train
