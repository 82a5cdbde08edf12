#pragma once

#include <vaecf/run/run.hpp>

#include <cstdint>
#include <string>

namespace vaecf::run {

/// Returns about how many bytes the checkpoints of a run take at most at a time.
std::int64_t checkpoint_bytes(const config::TrainingConfig& options, const io::DatasetFile& dataset);
/// Returns a table of what training will take: memory, communication per step, checkpoints, and from 20 steps
/// on these ranks, which take at most about 10 seconds, the time of an epoch and of the run. The time of a
/// model that is solved is not predicted. Writes no file. Collective.
std::string plan(const Run& run);

}  // namespace vaecf::run
