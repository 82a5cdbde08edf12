#pragma once

#include <vaecf/config/training_config.hpp>
#include <vaecf/context/context.hpp>
#include <vaecf/io/checkpoint.hpp>

#include <cstdint>
#include <functional>
#include <string>

namespace vaecf::checkpoint {

/// Returns what `read` returns for the checkpoint at `path`; 0 if it is not valid.
std::int64_t read_or_zero(const std::string& path,
                          const std::function<std::int64_t(const io::CheckpointFile& file)>& read);

/// Creates `folder`, which is RUN or one of its folders, and checks that it is writable. Throws RunError if
/// it is not.
void prepare_folder(const std::string& folder);

/// Moves a file of RUN/checkpoints to RUN/checkpoints/aside, as NAME.N.h5 if files of its name are there.
/// Throws RunError if that fails.
void set_aside(const config::TrainingConfig& options, const std::string& path);

/// Rewinds the run folder to a checkpoint: removes later lines of metrics.jsonl, and moves later checkpoints
/// to checkpoints/aside. For rank 0 only. Throws RunError if that fails.
void rewind_run_folder(const config::TrainingConfig& options, Log& log, std::int64_t epochs_done,
                       std::int64_t step);

}  // namespace vaecf::checkpoint
