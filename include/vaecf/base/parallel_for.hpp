#pragma once

#include <vaecf/base/thread_limit.hpp>
#include <vaecf/base/views.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace vaecf {

/// Ignores the progress of a loop.
struct NoProgress {
  void operator()(std::int64_t) const {}
};

/// Calls work(i), or work(thread, i), for each i of `range` on `threads` threads, or as many as ThreadLimit
/// allows, in chunks scheduled dynamically. This is the one loop of threads outside the CPU device, which
/// uses OpenMP. After each of its chunks, and at the end, the calling thread calls progressed(done) with
/// about the number of finished i. Rethrows the first exception.
template <class Work, class Progressed = NoProgress>
void parallel_for(int threads, Range range, const Work& work, const Progressed& progressed = {},
                  std::int64_t chunk = 16) {
  std::atomic<std::int64_t> next{range.begin};
  std::exception_ptr error;
  std::mutex mutex;
  const auto run = [&](int thread) {
    try {
      for (std::int64_t begin = next.fetch_add(chunk); begin < range.end; begin = next.fetch_add(chunk)) {
        for (std::int64_t i = begin; i < std::min(range.end, begin + chunk); ++i) {
          if constexpr (std::is_invocable_v<Work, int, std::int64_t>)
            work(thread, i);
          else
            work(i);
        }
        if (thread == 0) progressed(std::min(range.end, next.load()) - range.begin);
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (int t = 1; t < ThreadLimit::of(threads); ++t) others.emplace_back(run, t);
    run(0);
  }
  if (error) std::rethrow_exception(error);
  if (range.size() > 0) progressed(range.size());
}

}  // namespace vaecf
