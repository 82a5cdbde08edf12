// The thread beside: what was begun, and what is no longer waited for.
#include "comm/work_queue.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>

namespace vaecf::comm {
namespace {

constexpr double long_enough = 60.0;

TEST(WorkQueue, SettlesWhenAllIsDone) {
  std::atomic<int> done = 0;
  WorkQueue queue;
  queue.settle(long_enough);
  for (int i = 0; i < 100; ++i) queue.push([&] { ++done; });
  queue.settle(long_enough);
  EXPECT_EQ(done, 100);
}

TEST(WorkQueue, SettlesWithoutWhatHangsAndDropsTheRest) {
  std::promise<void> other_ranks;
  std::atomic<bool> touched = false;
  {
    WorkQueue queue;
    queue.push([&] { other_ranks.get_future().wait(); });
    queue.push([&] { touched = true; });
    queue.settle(0.1);
    other_ranks.set_value();
  }
  EXPECT_FALSE(touched);
}

TEST(WorkQueue, SettlesWhereNothingMoreIsRun) {
  WorkQueue queue;
  const std::int64_t failed = queue.push([] { throw std::runtime_error("the link is cut"); });
  queue.push([] {});
  queue.settle(long_enough);
  EXPECT_THROW(queue.wait(failed), std::runtime_error);
}

}  // namespace
}  // namespace vaecf::comm
