#pragma once

#include <algorithm>
#include <utility>

namespace vaecf {

/// A limit of the threads with which the calling thread computes, as long as it exists.
class ThreadLimit {
 public:
  /// `threads`: at most so many; 0: no limit.
  explicit ThreadLimit(int threads) : before_(std::exchange(limit_, threads)) {}
  ~ThreadLimit() { limit_ = before_; }
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

  /// Returns how many of `threads` threads the calling thread may use.
  static int of(int threads) { return limit_ == 0 ? threads : std::min(limit_, threads); }

 private:
  static inline thread_local int limit_ = 0;
  int before_;
};

}  // namespace vaecf
