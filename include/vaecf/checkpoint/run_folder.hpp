#pragma once

#include <vaecf/context/context.hpp>
#include <vaecf/io/checkpoint.hpp>

#include <cstdint>
#include <functional>
#include <string>

namespace vaecf::checkpoint {

/// The folder of a run, and the options of its files.
struct RunFolder {
  std::string path;
  std::string configuration = {};  ///< YAML of every resolved key, for config.yaml
  std::string resume_from = {};    ///< path of the checkpoint to resume from; empty: train from scratch
  std::int64_t keep = 2;           ///< number of newest checkpoints to keep, in addition to best.h5
  bool automatic = true;           ///< run.checkpoint_every is auto
  double retry_seconds = 60.0;     ///< for which the last checkpoint is attempted again

  std::string configuration_file() const { return path + "/config.yaml"; }
  std::string log() const { return path + "/metrics.jsonl"; }
  std::string checkpoints() const { return path + "/checkpoints"; }
  std::string best() const { return checkpoints() + "/best.h5"; }
};

/// Returns what `read` returns for the checkpoint at `path`; 0 if it is not valid.
std::int64_t read_or_zero(const std::string& path,
                          const std::function<std::int64_t(const io::CheckpointFile& file)>& read);

/// Creates `folder`, which is RUN or one of its folders, and checks that it is writable. Throws RunError if
/// it is not.
void prepare_folder(const std::string& folder);

/// Moves a file of RUN/checkpoints to RUN/checkpoints/aside, as NAME.N.h5 if files of its name are there.
/// Throws RunError if that fails.
void set_aside(const RunFolder& folder, const std::string& path);

/// Rewinds the run folder to a checkpoint: removes later lines of metrics.jsonl, and moves later checkpoints
/// to checkpoints/aside. For rank 0 only. Throws RunError if that fails.
void rewind_run_folder(const RunFolder& folder, Log& log, std::int64_t epochs_done, std::int64_t step);

}  // namespace vaecf::checkpoint
