#pragma once

#include <vaecf/checkpoint/training_state.hpp>
#include <vaecf/run/run.hpp>
#include <vaecf/training/trainer.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vaecf::checkpoint {

/// A checkpoint to resume from, and the configuration of the run that wrote it.
struct ResumePoint {
  std::string path;
  std::string configuration;
};

/// Returns the checkpoint to resume from, equal on all ranks. `requested` is a path, or "auto" for the newest
/// valid checkpoint of the run folder; unreadable ones are skipped with a warning. Returns nullopt if "auto"
/// finds none. Collective. Throws InputError on all ranks if the checkpoint is invalid, has another format
/// version or was trained on another dataset.
[[nodiscard]] std::optional<ResumePoint> find_resume_point(const run::Run& run, const std::string& requested);

/// Returns whether run.resume_from is in the checkpoint folder of this run. If so, the run continues its
/// log and checkpoints; otherwise it starts new ones. Collective; only rank 0 accesses the file.
[[nodiscard]] bool resumes_in_place(const run::Run& run);

/// Makes best.h5 contain the best epoch of `state`. If that epoch is lost, or `select` has changed, logs a
/// warning, moves best.h5 to checkpoints/aside and resets the best epoch in `state`. Collective.
void reconcile_best_checkpoint(const run::Run& run, const std::string& select, TrainingState& state);

/// The checkpoint run.start_from, whose weights a new run starts with. Items are matched by id. All ranks
/// must call the functions in the same order.
class StartPoint {
 public:
  /// Reads the checkpoint, except tensors. Throws InputError on all ranks if the file is not a valid
  /// checkpoint, or does not fit the model of the run.
  explicit StartPoint(const run::Run& run);

  /// Overwrites the initial weights of the trainer. Items that the checkpoint does not contain keep their
  /// initial weights. Rank 0 reads one tensor at a time into host memory. Logs the number of items, and a
  /// warning if the checkpoint was trained on held-out users of the dataset. Collective.
  void load_weights(training::Trainer& trainer);

 private:
  const run::Run& run_;
  CheckpointReader checkpoint_;
  std::vector<std::int64_t> sources_;  // on rank 0: index of each item in the checkpoint; -1: new item
};

/// Checks the checkpoint run.start_from. Collective. Throws InputError on all ranks if it is not valid, or
/// its weights do not fit the model of the run.
void validate_start(const run::Run& run);

}  // namespace vaecf::checkpoint
