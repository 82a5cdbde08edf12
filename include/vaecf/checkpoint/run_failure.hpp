#pragma once

#include <vaecf/base/failure.hpp>
#include <vaecf/base/timeline.hpp>
#include <vaecf/checkpoint/run_folder.hpp>

#include <string>

namespace vaecf::checkpoint {

/// The error by which a rank ends a run.
struct RunFailure {
  std::string id;  ///< RunState::id
  FailureCode code = FailureCode::internal;
  std::string reason;  ///< the message that the rank prints
  int rank = 0;        ///< the rank that ends the run; another one may be the cause, which the reason names
  std::string host;
  Activity::Report at;  ///< activity of that rank
};

/// Appends the event "failed" to metrics.jsonl in the folder. Does nothing if the file does not exist or
/// cannot be written. Blocks for at most 5 seconds, since the file system may be the cause of the failure.
/// Any thread may call it.
void log_failure(const RunFolder& folder, const RunFailure& failure);

}  // namespace vaecf::checkpoint
