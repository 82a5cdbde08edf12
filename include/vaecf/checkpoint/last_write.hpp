#pragma once

#include <vaecf/base/timeline.hpp>
#include <vaecf/context/context.hpp>

#include <string>

namespace vaecf::checkpoint {

/// The attempts to write a file without which a run loses its result, as on a disk that is full for a moment.
class LastWrite {
 public:
  LastWrite(const Context& context, double retry_seconds);

  /// Waits after the failure `error`, first 0.1 seconds and each time twice as long, up to 5 seconds. Returns
  /// false instead if run.retry_seconds would be exceeded, or as soon as this rank receives a request to stop
  /// that it had not received before. The first failure is logged as a warning.
  [[nodiscard]] bool wait_to_retry(const std::string& error);

 private:
  bool interrupted() const { return !stopping_ && context_.this_rank_asked_to_stop(); }

  Context context_;
  double retry_seconds_;
  bool stopping_;  // a stop was requested before, so that another request ends the process
  Clock::time_point begin_ = Clock::now();
  double pause_ = 0.1;  // seconds until the next attempt
};

}  // namespace vaecf::checkpoint
