#pragma once

#include <vaecf/io/checkpoint.hpp>
#include <vaecf/model/model.hpp>
#include <vaecf/train/session.hpp>
#include <vaecf/train/trainer.hpp>

#include <cstdint>
#include <string>

namespace vaecf::train {

/// Where a run stands: what a checkpoint holds beside tensors.
struct RunState {
  std::int64_t updates_done = 0;
  std::int64_t epoch = 0;          ///< epochs done
  std::int64_t step_in_epoch = 0;  ///< steps done of the next one
  std::int64_t users_seen = 0;
  double best_metric = 0.0;
  std::int64_t best_epoch = 0;  ///< 0: none yet
  std::int64_t patience_count = 0;
  backend::LossScale loss_scale{1.0F, 0};
};

/// Writes fp32 weights and both moments, unsharded. Rank 0 writes; all ranks call it, and all throw its
/// RunError. No rank needs more memory than it has for training.
void save_checkpoint(const std::string& path, const SessionOptions& options, const Services& services,
                     const RunState& state, const std::string& fingerprint, Trainer& trainer);

/// What rank 0 read beside the weights.
struct LoadedCheckpoint {
  std::int64_t epoch = 0;
  std::int64_t items = 0;
  std::string fingerprint;
};

/// Reads the attributes on rank 0 and gives them to all ranks. InputError on all ranks.
LoadedCheckpoint read_checkpoint_state(const std::string& path, const Services& services);

/// Reads the weights on rank 0 and gives them to all ranks, in blocks. InputError on all ranks where tensors
/// are missing or of other shapes than the model's.
void load_weights(const std::string& path, const Services& services, model::Model& model);

}  // namespace vaecf::train
