#pragma once

#include <vaecf/io/dataset_file.hpp>
#include <vaecf/model/model.hpp>
#include <vaecf/train/session.hpp>
#include <vaecf/train/trainer.hpp>

#include <cstdint>
#include <string>

#include "run_state.hpp"

namespace vaecf::train {

/// What all ranks are told of a checkpoint beside its tensors.
struct LoadedCheckpoint {
  std::int64_t epoch = 0;
  std::int64_t items = 0;
  std::string fingerprint;
  std::int64_t features = 0;
  std::uint64_t checksum = 0;
  std::string feature_hashing;
};

/// Reads the attributes on rank 0 and gives them to all ranks. InputError on all ranks.
LoadedCheckpoint read_checkpoint_state(const std::string& path, const Services& services);

/// InputError naming both values where the checkpoint at `path`, trained on `items` items of the dataset with
/// this fingerprint, is of another.
void require_same_dataset(const std::string& path, std::int64_t items, const std::string& fingerprint,
                          const io::DatasetFile& dataset);

/// Reads the weights on rank 0 and gives them to all ranks, in blocks. InputError on all ranks where tensors
/// are missing or of other shapes than the model's.
void load_weights(const std::string& path, const Services& services, model::Model& model);

/// Takes the trainer back to where it was when the checkpoint was written, from any number of ranks, but for
/// the batches and losses of the epoch under way (Trainer::start_epoch, set_losses). Returns the state that
/// was saved, on all ranks. InputError on all ranks as load_weights.
RunState restore(const std::string& path, const Services& services, Trainer& trainer);

}  // namespace vaecf::train
