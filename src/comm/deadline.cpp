#include "deadline.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "awake_clock.hpp"
#include "last_words.hpp"

namespace vaecf::comm {

struct Deadline::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;

  /// False where `seconds` passed first.
  bool done_within(double seconds) {
    constexpr double look_every = 1.0;
    AwakeClock clock(2 * look_every);
    std::unique_lock lock(mutex);
    for (double now = clock.now(); now < seconds && !done; now = clock.now()) {
      const std::chrono::duration<double> next(std::min(look_every, seconds - now));
      changed.wait_for(lock, next, [this] { return done; });
    }
    return done;
  }
};

Deadline::Deadline(double seconds, std::string words, int code) noexcept {
  try {
    state_ = std::make_shared<State>();
    thread_ = std::thread([state = state_, seconds, words = std::move(words), code] {
      if (state->done_within(seconds)) return;
      if (!words.empty()) last_words(words);
      std::_Exit(code);
    });
  } catch (...) {
    // As said: nothing is guarded.
  }
}

Deadline::~Deadline() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->done = true;
  }
  state_->changed.notify_all();
  thread_.join();
}

}  // namespace vaecf::comm
