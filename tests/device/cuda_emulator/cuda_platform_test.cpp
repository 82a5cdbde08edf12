// Memory, streams, captures, scan and sort.
#include <vaecf/base/error.hpp>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <stdexcept>

#include "device/cuda/platform/primitives.hpp"
#include "device/cuda_emulator/cuda_platform_support.hpp"
#include "support/messages.hpp"

namespace vaecf::cuda_test {
namespace {

using cuda::CapturedGraph;
using cuda::DeviceArray;
using cuda::Event;
using cuda::PinnedArray;
using cuda::Stream;

std::vector<std::int64_t> counted(std::size_t size) {
  std::vector<std::int64_t> values(size);
  std::iota(values.begin(), values.end(), std::int64_t{5});
  return values;
}

TEST_F(Platform, DeviceHasNameAndId) {
  EXPECT_EQ(gpu().index(), 0);
  EXPECT_FALSE(gpu().name().empty());
  EXPECT_GT(gpu().total_bytes(), 0);
  EXPECT_GT(gpu().free_bytes(), 0);
  EXPECT_LE(gpu().free_bytes(), gpu().total_bytes());
  const std::string id = gpu().id();
  EXPECT_FALSE(id.empty());
  if (on_gpu()) {
    ASSERT_EQ(id.size(), 40U) << id;
    EXPECT_EQ(id.substr(0, 4), "GPU-");
    for (const std::size_t dash : {3U, 12U, 17U, 22U, 27U}) EXPECT_EQ(id[dash], '-') << id;
  }
}

TEST_F(Platform, MemoryIsZeroAlignedAndCounted) {
  for (int i = 0; i < 2; ++i) {
    DeviceArray<std::int64_t> first(gpu(), 3, "a test");
    DeviceArray<std::int64_t> array(gpu(), 100000, "a test");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array.data()) % 256, 0U);
    EXPECT_EQ(download(array), std::vector<std::int64_t>(100000, 0)) << "even if it was used before";
    double_and_add_one(stream(), array);
    DeviceArray<std::int64_t> moved(std::move(array));
    array = std::move(moved);
  }
  EXPECT_EQ(gpu().peak_bytes(), 800024) << "released memory is not counted";
  EXPECT_EQ(DeviceArray<float>(gpu(), 0, "a test").data(), nullptr);
}

TEST_F(Platform, OutOfMemoryErrorNamesThePurpose) {
  expect_in(message_of<RunError>([&] { gpu().allocate(std::int64_t{1} << 50, "the moon"); }), {"the moon"});
  DeviceArray<std::int64_t> array(gpu(), 10, "a test");
  EXPECT_EQ(gpu().peak_bytes(), 80);
  double_and_add_one(stream(), array);
  EXPECT_EQ(download(array), std::vector<std::int64_t>(10, 1));
}

TEST_F(Platform, CopiesAreOrderedWithinAStream) {
  const auto values = counted(1000);
  PinnedArray<std::int64_t> in(1000);
  PinnedArray<std::int64_t> out(1000);
  std::copy(values.begin(), values.end(), in.data());
  DeviceArray<std::int64_t> a(gpu(), 1000, "a test");
  DeviceArray<std::int64_t> b(gpu(), 1000, "a test");
  stream().copy_h2d(a.data(), in.data(), a.bytes());
  double_and_add_one(stream(), a);
  stream().copy(b.data() + 10, a.data(), 990 * 8);
  stream().memset_zero(b.data() + 500, 100 * 8);
  double_and_add_one(stream(), a);
  stream().copy_d2h(out.data(), b.data(), b.bytes());
  stream().synchronize();
  for (std::size_t i = 0; i < 1000; ++i) {
    const bool cleared = i < 10 || (i >= 500 && i < 600);
    ASSERT_EQ(out.data()[i], cleared ? 0 : 2 * values[i - 10] + 1) << i;
  }
  stream().copy_h2d(a.data(), in.data(), 0);
  stream().copy_d2h(nullptr, nullptr, 0);
  stream().memset_zero(nullptr, 0);
  stream().synchronize();
}

TEST_F(Platform, PageableMemoryMayChangeAfterTheCall) {
  auto values = counted(100);
  DeviceArray<std::int64_t> a(gpu(), 100, "a test");
  stream().copy_h2d(a.data(), values.data(), a.bytes());
  std::fill(values.begin(), values.end(), -1);
  EXPECT_EQ(download(a), counted(100));
}

TEST_F(Platform, KernelsRunAllBlocksWithSeparateScratch) {
  const std::size_t blocks = on_gpu() ? 70001 : 701;  // more than the limit of a grid's second dimension
  std::vector<std::int64_t> rows(blocks * 38);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i * 7 % 1001);
  DeviceArray<std::int64_t> array = upload(rows);
  reverse_rows(stream(), nullptr, 0);
  reverse_rows(stream(), array.data(), blocks);
  const auto result = download(array);
  for (std::size_t block = 0; block < blocks; ++block) {
    auto* row = rows.data() + block * 38;
    row[37] = std::accumulate(row, row + 37, std::int64_t{0});
    std::reverse(row, row + 37);
  }
  EXPECT_TRUE(result == rows);
}

TEST_F(Platform, KernelsReadAndWritePinnedMemory) {
  PinnedArray<std::int64_t> rows(38);
  rows.data()[36] = 5;
  reverse_rows(stream(), rows.data(), 1);
  stream().synchronize();
  EXPECT_EQ(rows.data()[0], 5);
  EXPECT_EQ(rows.data()[37], 5);
}

TEST_F(Platform, EventsOrderStreams) {
  Stream other;
  Event event;
  EXPECT_TRUE(event.done());
  EXPECT_NE(event.native(), nullptr);
  EXPECT_NE(other.native(), nullptr);
  DeviceArray<std::int64_t> array = upload(counted(100000));
  DeviceArray<std::int64_t> copy(gpu(), 100000, "a test");
  for (int i = 0; i < 30; ++i) double_and_add_one(stream(), array);
  stream().record(event);
  other.wait_event(event.native());
  other.wait_event(nullptr);
  other.copy(copy.data(), array.data(), copy.bytes());
  other.synchronize();
  EXPECT_TRUE(event.done());
  auto expected = counted(100000);
  for (auto& value : expected) {
    for (int i = 0; i < 30; ++i) value = 2 * value + 1;
  }
  EXPECT_TRUE(download(copy) == expected);
  Event moved(std::move(event));
  EXPECT_TRUE(moved.done());
}

TEST_F(Platform, TimedEventsMeasureDeviceTime) {
  DeviceArray<std::int64_t> array = upload(counted(100000));
  Event begin(cuda::Timing::on);
  Event end(cuda::Timing::on);
  stream().record(begin);
  double_and_add_one(stream(), array);
  stream().record(end);
  stream().synchronize();
  EXPECT_GT(Event::seconds_between(begin, end), 0.0);
  EXPECT_LT(Event::seconds_between(begin, end), 60.0);
  // Recording an event again replaces its earlier point.
  stream().record(begin);
  stream().synchronize();
  EXPECT_GE(Event::seconds_between(end, begin), 0.0);
}

TEST_F(Platform, CapturedWorkRunsOnlyOnReplayWithCurrentPinnedMemory) {
  PinnedArray<std::int64_t> in(1);
  PinnedArray<std::int64_t> out(1);
  DeviceArray<std::int64_t> array(gpu(), 300, "a test");
  EXPECT_FALSE(stream().capturing());
  stream().begin_capture();
  EXPECT_TRUE(stream().capturing());
  EXPECT_THROW(stream().begin_capture(), std::logic_error);
  EXPECT_THROW(stream().synchronize(), std::logic_error);
  stream().copy_h2d(array.data(), in.data(), 8);
  double_and_add_one(stream(), array);
  double_and_add_one(stream(), array);
  stream().copy_d2h(out.data(), array.data(), 8);
  const CapturedGraph graph = stream().end_capture();
  EXPECT_FALSE(stream().capturing());
  EXPECT_THROW(stream().end_capture(), std::logic_error);
  EXPECT_EQ(download(array), std::vector<std::int64_t>(300, 0));
  stream().run(graph);
  EXPECT_EQ(download(array), std::vector<std::int64_t>(300, 3));
  stream().run(graph);
  double_and_add_one(stream(), array);
  stream().run(graph);
  EXPECT_EQ(download(array).back(), 127);
  for (const std::int64_t value : {4, 9}) {
    *in.data() = value;
    stream().run(graph);
    stream().synchronize();
    EXPECT_EQ(*out.data(), 4 * value + 3);
  }
}

TEST_F(Platform, CaptureIncludesStreamsThatJoin) {
  Stream other;
  Event fork;
  Event join;
  DeviceArray<std::int64_t> a(gpu(), 100, "a test");
  DeviceArray<std::int64_t> b(gpu(), 100, "a test");
  stream().begin_capture();
  double_and_add_one(stream(), a);
  stream().record(fork);
  other.wait_event(fork.native());
  other.copy(b.data(), a.data(), a.bytes());
  double_and_add_one(other, b);
  other.record(join);
  stream().wait_event(join.native());
  stream().copy(a.data(), b.data(), b.bytes());
  const CapturedGraph graph = stream().end_capture();
  stream().run(graph);
  EXPECT_EQ(download(a), std::vector<std::int64_t>(100, 3));
  stream().run(graph);
  EXPECT_EQ(download(a), std::vector<std::int64_t>(100, 15));
  double_and_add_one(other, b);  // can be used again
  other.synchronize();
  EXPECT_EQ(download(b), std::vector<std::int64_t>(100, 31));
}

TEST_F(Platform, CaptureMustWaitForTheWorkOfOtherStreams) {
  Stream second;
  Stream third;
  Event events[3];
  DeviceArray<std::int64_t> array(gpu(), 10, "a test");
  const auto follow = [](Stream& stream, Stream& before, Event& event) {
    before.record(event);
    stream.wait_event(event.native());
  };
  const auto captures = [&](const std::function<void()>& more) {
    stream().begin_capture();
    double_and_add_one(stream(), array);
    follow(second, stream(), events[0]);
    double_and_add_one(second, array);
    more();
    try {
      stream().end_capture();
    } catch (const std::exception&) {
      return false;
    }
    return true;
  };
  EXPECT_FALSE(captures([] {}));
  EXPECT_TRUE(captures([&] { follow(stream(), second, events[1]); }));
  EXPECT_FALSE(captures([&] {
    follow(stream(), second, events[1]);
    double_and_add_one(second, array);
  })) << "work after the event";
  EXPECT_TRUE(captures([&] {
    follow(third, second, events[1]);
    double_and_add_one(third, array);
    follow(stream(), third, events[2]);
  })) << "waiting for the third stream is waiting for the second";
  for (const Stream* each : {&stream(), &second, &third}) EXPECT_FALSE(each->capturing());
  double_and_add_one(second, array);
  second.synchronize();
  EXPECT_EQ(download(array), std::vector<std::int64_t>(10, 1));
}

TEST_F(Platform, AllocationInvalidatesOnlyTheCapture) {
  DeviceArray<std::int64_t> array(gpu(), 10, "a test");
  stream().begin_capture();
  double_and_add_one(stream(), array);
  EXPECT_ANY_THROW(gpu().allocate(100, "a test"));
  EXPECT_ANY_THROW(stream().end_capture());
  EXPECT_FALSE(stream().capturing());
  double_and_add_one(stream(), array);
  EXPECT_EQ(download(array), std::vector<std::int64_t>(10, 1));
}

TEST_F(Platform, PrefixSumsExceed32Bits) {
  cuda::Primitives primitives(gpu());
  for (const std::int64_t n : {0, 1, 31, 257, 100000}) {
    std::vector<std::int32_t> in(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = (1 << 30) - static_cast<std::int32_t>(i % 1000);
    std::vector<std::int64_t> expected(1);
    for (const std::int32_t value : in) expected.push_back(expected.back() + value);
    const auto values = upload(in);
    auto sums = upload(std::vector<std::int64_t>(in.size() + 1, -1));
    primitives.exclusive_scan(stream(), values.data(), n, sums.data());
    EXPECT_TRUE(download(sums) == expected) << n;
  }
}

TEST_F(Platform, SortsAreStableAndUseTheLowestBits) {
  cuda::Primitives primitives(gpu());
  std::mt19937 random(7);
  for (const std::int64_t n : {0, 1, 31, 257, 5000, on_gpu() ? 500000 : 20000}) {
    for (const int bits : {1, 9, 15, 32}) {
      std::vector<std::uint32_t> keys(static_cast<std::size_t>(n));
      std::vector<std::uint32_t> numbers(keys.size());
      for (auto& key : keys) key = static_cast<std::uint32_t>(random());
      std::iota(numbers.begin(), numbers.end(), 0U);
      const std::uint32_t mask = bits == 32 ? ~0U : (1U << bits) - 1;
      std::vector<std::uint32_t> order = numbers;
      std::stable_sort(order.begin(), order.end(),
                       [&](std::uint32_t x, std::uint32_t y) { return (keys[x] & mask) < (keys[y] & mask); });
      const auto in = upload(keys);
      const auto values = upload(numbers);
      DeviceArray<std::uint32_t> sorted(gpu(), n, "a test");
      DeviceArray<std::uint32_t> sorted_values(gpu(), n, "a test");
      primitives.sort_pairs(stream(), in.data(), sorted.data(), values.data(), sorted_values.data(), n, bits);
      EXPECT_TRUE(download(sorted_values) == order) << n << " by " << bits;
      for (auto& place : order) place = keys[place];
      EXPECT_TRUE(download(sorted) == order) << n << " by " << bits;
      EXPECT_TRUE(download(in) == keys) << n << " by " << bits;
    }
  }
}

TEST_F(Platform, ScanAndSortCanBeCapturedIfTheyRanBefore) {
  cuda::Primitives primitives(gpu());
  constexpr std::int64_t n = 3000;
  std::vector<std::int32_t> ones(n, 1);
  const auto in = upload(ones);
  DeviceArray<std::int64_t> sums(gpu(), n + 1, "a test");
  DeviceArray<std::uint32_t> keys(gpu(), 50 * n, "a test");
  DeviceArray<std::uint32_t> sorted(gpu(), 50 * n, "a test");
  DeviceArray<std::uint32_t> values(gpu(), 50 * n, "a test");
  const auto run = [&](std::int64_t size) {
    primitives.exclusive_scan(stream(), in.data(), n, sums.data());
    primitives.sort_pairs(stream(), keys.data(), sorted.data(), keys.data(), values.data(), size, 12);
  };
  run(n);
  stream().begin_capture();
  run(n);
  const CapturedGraph graph = stream().end_capture();
  stream().begin_capture();
  EXPECT_THROW(run(50 * n), std::logic_error) << "scratch memory cannot grow during a capture";
  stream().end_capture();

  run(50 * n);  // larger scratch memory must not replace that of the captured work
  std::vector<std::uint32_t> falling(n);
  std::iota(falling.rbegin(), falling.rend(), 1U);
  stream().copy_h2d(keys.data(), falling.data(), 4 * n);
  stream().run(graph);
  std::sort(falling.begin(), falling.end());
  for (const auto* array : {&sorted, &values}) {
    auto found = download(*array);
    found.resize(n);
    EXPECT_TRUE(found == falling);
  }
  EXPECT_EQ(download(sums).back(), n);
}

}  // namespace
}  // namespace vaecf::cuda_test
