#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/base/timeline.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/io/output_file.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vaecf::train {

/// How far this rank's clock is ahead of rank 0's, in nanoseconds.
struct ClockOffset {
  std::int64_t at = 0;      ///< by this rank's clock
  std::int64_t offset = 0;  ///< this clock less rank 0's at the same moment
  std::int64_t error = 0;   ///< half of what is left open
};

/// Sorts by track and time, events that contain others before them, and cuts those that overlap others by the
/// resolution of a clock, so that events of a track lie in one another or apart.
void make_nested(std::vector<TimelineEvent>& events);

/// What all ranks did when, as one file by rank 0 in the JSON that Perfetto and chrome://tracing read. If
/// write() is not called, nothing is left.
class RunTimeline {
 public:
  /// On rank 0 makes the file, still under a temporary name. Throws RunError if that cannot be. Not
  /// collective.
  RunTimeline(const comm::Communicator& communicator, const std::string& path,
              std::shared_ptr<Timeline> timeline = std::make_shared<Timeline>());

  /// From here on this rank records. Collective.
  void start(comm::Communicator& communicator);
  /// Gathers what all ranks have, and gives the file its name. A file that cannot be written costs a warning
  /// of `log`: it is no reason for a run to fail. Collective.
  void write(comm::Communicator& communicator, Log& log);

 private:
  std::string path_;
  std::shared_ptr<Timeline> timeline_;
  std::unique_ptr<io::OutputFile> file_;  // on rank 0
  ClockOffset start_;
};

}  // namespace vaecf::train
