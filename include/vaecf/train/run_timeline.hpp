#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/base/timeline.hpp>
#include <vaecf/comm/clock_offset.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/io/trace_file.hpp>

#include <memory>
#include <string>

namespace vaecf::train {

/// What all ranks did when, as one file by rank 0: see Timeline for what is kept, ClockMap for how clocks are
/// brought together. Where nobody calls write(), nothing is left.
class RunTimeline {
 public:
  /// On rank 0 makes the file, still without its name. RunError where it cannot be made. Not collective.
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
  std::unique_ptr<io::TraceFile> file_;  // on rank 0
  comm::ClockOffset start_;
};

}  // namespace vaecf::train
