#include <vaecf/base/parallel_for.hpp>
#include <vaecf/base/thread_limit.hpp>

#include <gtest/gtest.h>

#include <set>
#include <thread>

namespace vaecf {
namespace {

/// Returns the largest number of a thread in a loop of `threads` threads.
int last_thread(int threads) {
  std::atomic<int> last{0};
  // Each thread waits until all have begun, or for what the limit leaves out.
  std::atomic<int> begun{0};
  const int expected = ThreadLimit::of(threads);
  parallel_for(
      threads, {0, expected},
      [&](int thread, std::int64_t) {
        ++begun;
        while (begun < expected) std::this_thread::yield();
        for (int before = last; before < thread && !last.compare_exchange_weak(before, thread);) {
        }
      },
      NoProgress(), 1);
  return last;
}

TEST(ThreadLimit, HoldsForTheCallingThreadWhileItExists) {
  EXPECT_EQ(last_thread(3), 2);
  {
    const ThreadLimit two(2);
    EXPECT_EQ(last_thread(3), 1);
    EXPECT_EQ(last_thread(1), 0);
    {
      const ThreadLimit one(1);
      EXPECT_EQ(last_thread(3), 0);
      std::jthread([] { EXPECT_EQ(ThreadLimit::of(3), 3); });
    }
    const ThreadLimit none(0);
    EXPECT_EQ(ThreadLimit::of(3), 3);
  }
  EXPECT_EQ(ThreadLimit::of(3), 3);
}

}  // namespace
}  // namespace vaecf
