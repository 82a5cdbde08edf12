#pragma once

#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/model/model.hpp>
#include <vaecf/train/session.hpp>
#include <vaecf/train/trainer.hpp>

#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint/run_state.hpp"

namespace vaecf::train {

/// A checkpoint that rank 0 reads for all ranks, whichever number of ranks wrote it. All functions are
/// called by all ranks alike, and throw InputError on all of them.
class CheckpointReader {
 public:
  CheckpointReader(const std::string& path, const Services& services);

  const RunState& state() const { return state_; }
  /// Throws InputError if it was trained on another dataset, or reads other features of users than the model
  /// that `options` make of the dataset.
  void require_trained_on(const SessionOptions& options, const io::DatasetFile& dataset) const;
  /// Reads the weights. Throws InputError if tensors are missing or of other shapes than the model's.
  void load_weights(model::Model& model);
  /// Takes the trainer back to where it was when the checkpoint was written, but for the batches and losses
  /// of the epoch under way (Trainer::start_epoch, set_losses). Throws InputError as load_weights().
  void restore(Trainer& trainer);

 private:
  /// Writes the tensors below `group` on all ranks, in blocks of rows.
  void read(const std::string& group, const std::vector<device::TensorSpec>& specs, const WriteRows& write);

  std::string path_;
  Services services_;
  std::optional<io::CheckpointFile> file_;  // on rank 0
  RunState state_;
};

/// Returns true if the checkpoint to go on from lies among this run's own: then its log and checkpoints go on
/// too, else the run is a new one in them. Collective: rank 0 alone needs to see the file.
bool goes_on_in_its_folder(const SessionOptions& options, comm::Communicator& communicator);

/// Sees to it that best.h5 is the best epoch that `state` knows of; collective. Where that epoch is lost, it
/// warns, and the state forgets it: the next validation is the best so far. What best.h5 then held moves to
/// checkpoints.old.
void settle_best(const SessionOptions& options, const Services& services, const std::string& select,
                 RunState& state);

}  // namespace vaecf::train
