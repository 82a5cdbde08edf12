#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

#include "platform.hpp"

namespace vaecf::cuda {

/// Waits on the host for `event`, calling `check`, which may throw to end the wait, now and then.
inline void wait_on_host(const Event& event, const std::function<void()>& check = {}) {
  for (int look = 0; !event.done(); ++look) {
    if (look < 100) {
      std::this_thread::yield();
      continue;
    }
    if (check) check();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

/// Pinned memory that numbers go to the device through, written again only when the copy before is done.
template <class T>
class Upload {
 public:
  /// Room for `n` numbers to be filled in.
  T* room(std::int64_t n, const std::function<void()>& check = {}) {
    wait_on_host(copied_, check);
    if (staged_.size() < n) staged_ = PinnedArray<T>(n);
    return staged_.data();
  }
  /// Copies the first `n` of them to `device`, in the order of `queue`.
  void send(Queue& queue, std::int64_t n, T* device) {
    queue.copy_in(device, staged_.data(), n * static_cast<std::int64_t>(sizeof(T)));
    queue.record(copied_);
  }

 private:
  PinnedArray<T> staged_;
  Event copied_;
};

}  // namespace vaecf::cuda
