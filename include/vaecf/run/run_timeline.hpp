#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/base/timeline.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/io/atomic_file.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vaecf::run {

/// The offset of this rank's clock from rank 0's, in nanoseconds.
struct ClockOffset {
  std::int64_t at = 0;      ///< time of the measurement by this rank's clock
  std::int64_t offset = 0;  ///< this rank's clock minus rank 0's clock
  std::int64_t error = 0;   ///< bound on the error of `offset`
};

/// Sorts events by track and begin; an event precedes those that it contains. Shortens events that partly
/// overlap others because of clock resolution, so that two events of a track are either nested or disjoint.
void make_nested(std::vector<TimelineEvent>& events);

/// Writes the timelines of all ranks to one file in Chrome trace format, for Perfetto and chrome://tracing.
/// If write() is not called, no file remains.
class RunTimeline {
 public:
  /// Creates the file under a temporary name on rank 0. Throws RunError if that fails. Not collective.
  RunTimeline(const comm::Communicator& communicator, const std::string& path,
              std::shared_ptr<Timeline> timeline = std::make_shared<Timeline>());

  /// Starts recording on this rank. Collective.
  void start(comm::Communicator& communicator);
  /// Gathers the events of all ranks, writes the file and renames it to `path`. If the file cannot be
  /// written, a warning is logged and the run continues. Collective.
  void write(comm::Communicator& communicator, Log& log);

 private:
  std::string path_;
  std::shared_ptr<Timeline> timeline_;
  std::unique_ptr<io::AtomicOutputFile> file_;  // on rank 0
  ClockOffset start_;
};

}  // namespace vaecf::run
