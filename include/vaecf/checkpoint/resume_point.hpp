#pragma once

#include <vaecf/checkpoint/run_folder.hpp>
#include <vaecf/checkpoint/training_state.hpp>
#include <vaecf/context/context.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <optional>
#include <string>

namespace vaecf::checkpoint {

/// A checkpoint to resume from, which CheckpointReader restores, and the configuration of the run that wrote
/// it.
struct ResumePoint {
  std::string path;
  std::string configuration;
};

/// Returns the checkpoint to resume from, equal on all ranks. `requested` is a path, or "auto" for the newest
/// valid checkpoint of the run folder; unreadable ones are skipped with a warning. Returns nullopt if "auto"
/// finds none. Collective. Throws InputError on all ranks if the checkpoint is invalid, has another format
/// version or was trained on another dataset.
[[nodiscard]] std::optional<ResumePoint> find_resume_point(const Context& context, const RunFolder& folder,
                                                           const io::DatasetFile& dataset,
                                                           const std::string& requested);

/// Returns whether `folder.resume_from` is in the checkpoint folder of the run. If so, the run
/// continues its log and checkpoints; otherwise it starts new ones. Collective; only rank 0 accesses the
/// file.
[[nodiscard]] bool resumes_in_place(const Context& context, const RunFolder& folder);

/// Makes best.h5 contain the best epoch of `state`. If that epoch is lost, or `select` has changed, logs a
/// warning, moves best.h5 to checkpoints/aside and resets the best epoch in `state`. Collective.
void reconcile_best_checkpoint(const Context& context, const RunFolder& folder, const std::string& select,
                               TrainingState& state);

}  // namespace vaecf::checkpoint
