#pragma once

#include <vaecf/base/views.hpp>

#include <omp.h>

#include <atomic>
#include <cstdint>
#include <exception>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace vaecf::cpu {

/// Flushes denormals to zero on the calling thread during its lifetime. Otherwise, decaying moments that
/// become denormal would make Adam many times slower.
class FlushDenormals {
 public:
#if defined(__SSE2__)
  FlushDenormals() : before_(_mm_getcsr()) {
    _mm_setcsr(before_ | 0x8040U);
  }  // FTZ, DAZ
  ~FlushDenormals() {
    _mm_setcsr(before_);
  }

 private:
  unsigned before_;
#elif defined(__aarch64__)
  FlushDenormals() {
    __asm__ volatile("mrs %0, fpcr" : "=r"(before_));
    __asm__ volatile("msr fpcr, %0" ::"r"(before_ | (std::uint64_t{1} << 24)));  // FZ
  }
  ~FlushDenormals() {
    __asm__ volatile("msr fpcr, %0" ::"r"(before_));
  }

 private:
  std::uint64_t before_;
#else
  FlushDenormals() {}
#endif
 public:
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;
};

/// Returns part `index` of `parts` of [0, n), in multiples of `grain` elements.
inline Range split(std::int64_t n, int parts, int index, std::int64_t grain = 1) {
  const std::int64_t grains = (n + grain - 1) / grain;
  const std::int64_t begin = grains * index / parts * grain;
  const std::int64_t end = grains * (index + 1) / parts * grain;
  return {begin < n ? begin : n, end < n ? end : n};
}

/// Calls f(range) for blocks of [0, n) with at most `max_size` elements. Blocks have nearly equal sizes, so
/// that few product shapes occur; there is at least one block.
template <class F>
void for_each_block(std::int64_t n, std::int64_t max_size, F&& f) {
  const std::int64_t blocks = n > max_size ? (n + max_size - 1) / max_size : 1;
  for (std::int64_t b = 0; b < blocks; ++b) f(Range{n * b / blocks, n * (b + 1) / blocks});
}

/// Returns the number of OpenMP threads for a team of `threads`: as many as ThreadLimit allows, and 1 in a
/// process that was forked from one with this library. The threads of the other process do not exist there,
/// and libgomp would wait for them.
int team_size(int threads);

/// Calls f(thread) for each of `threads` threads. Rethrows the first exception, because none may leave an
/// OpenMP region.
template <class F>
void parallel_for_threads(int threads, F&& f) {
  std::exception_ptr error;
#pragma omp parallel num_threads(team_size(threads))
  {
    const FlushDenormals guard;
    // The team may be smaller than requested (nested regions, forked processes), so each thread handles all
    // its shares.
    for (int share = omp_get_thread_num(); share < threads; share += omp_get_num_threads()) {
      try {
        f(share);
      } catch (...) {
#pragma omp critical(vaecf_parallel_for_threads)
        if (!error) error = std::current_exception();
      }
    }
  }
  if (error) std::rethrow_exception(error);
}

/// Calls f(thread, range) with [0, n) divided into one contiguous range per thread. The division depends only
/// on n and the number of threads.
template <class F>
void parallel_for_static(int threads, std::int64_t n, std::int64_t grain, F&& f) {
  parallel_for_threads(threads, [&](int thread) {
    const Range part = split(n, threads, thread, grain);
    if (part.size() > 0) f(thread, part);
  });
}

/// Calls f(thread, i) for each i of [0, n), divided as in parallel_for_static().
template <class F>
void parallel_for(int threads, std::int64_t n, F&& f) {
  parallel_for_static(threads, n, 1, [&](int thread, Range part) {
    for (std::int64_t i = part.begin; i < part.end; ++i) f(thread, i);
  });
}

/// Calls f(thread, range) with [0, n) divided into chunks of `grain`, scheduled dynamically. For chunks with
/// unequal work whose result does not depend on the thread.
template <class F>
void parallel_for_dynamic(int threads, std::int64_t n, std::int64_t grain, F&& f) {
  std::atomic<std::int64_t> next{0};
  parallel_for_threads(threads, [&](int thread) {
    for (std::int64_t begin = next.fetch_add(grain); begin < n; begin = next.fetch_add(grain)) {
      f(thread, Range{begin, begin + grain < n ? begin + grain : n});
    }
  });
}

}  // namespace vaecf::cpu
