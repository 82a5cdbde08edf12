#include <vaecf/checkpoint/last_write.hpp>

#include <algorithm>
#include <chrono>
#include <thread>

namespace vaecf::checkpoint {

LastWrite::LastWrite(const Context& context, double retry_seconds)
    : context_(context), retry_seconds_(retry_seconds), stopping_(context.this_rank_asked_to_stop()) {}

bool LastWrite::wait_to_retry(const std::string& error) {
  constexpr double first_pause = 0.1;
  constexpr double max_pause = 5.0;
  const double limit = retry_seconds_;
  if (interrupted() || seconds_since(begin_) + pause_ > limit) return false;
  if (pause_ == first_pause) {
    context_.log.warn(
        "{}; writing is attempted again for up to {:g} seconds (run.retry_seconds), or until a request to stop",
        error, limit);
  }
  const auto begin = Clock::now();
  while (seconds_since(begin) < pause_) {
    if (interrupted()) return false;
    context_.communicator.activity().note_progress();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  pause_ = std::min(2.0 * pause_, max_pause);
  return true;
}

}  // namespace vaecf::checkpoint
