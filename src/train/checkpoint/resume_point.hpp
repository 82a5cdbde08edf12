#pragma once

#include <vaecf/train/train.hpp>

#include <string>

#include "train/checkpoint/training_state.hpp"

namespace vaecf::train {

/// Returns whether run.resume_from is in the checkpoint folder of this run. If so, the run continues its
/// log and checkpoints; otherwise it starts new ones. Collective; only rank 0 accesses the file.
bool resumes_in_place(const Run& run);

/// Makes best.h5 contain the best epoch of `state`. If that epoch is lost, or `select` has changed, logs a
/// warning, moves best.h5 to checkpoints/aside and resets the best epoch in `state`. Collective.
void reconcile_best_checkpoint(const Run& run, const std::string& select, TrainingState& state);

}  // namespace vaecf::train
