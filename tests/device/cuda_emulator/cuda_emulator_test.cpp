// The host emulation itself, as strict and as lazy as a GPU, and properties of the CUDA device outside the
// common contract: graphs, pending read-backs, and exhausted memory.
#include <vaecf/base/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include "device/cuda/device.hpp"
#include "device/cuda/operations/output_layer.hpp"
#include "support/cuda_emulator/runtime.hpp"

namespace vaecf::cuda {
namespace {

using device::BackendOptions;
using device::LossScale;
using device::LossSums;
using device::Precision;

class CudaEmulator : public ::testing::Test {
 protected:
  void set(float value) { pinned_.data()[0] = value; }
  float host() const { return pinned_.data()[0]; }
  /// Copies through pinned memory, captured or not.
  void copy_h2d() { stream_.copy_h2d(values_.data(), pinned_.data(), 4); }
  void copy_d2h() { stream_.copy_d2h(pinned_.data(), values_.data(), 4); }
  float read() {
    float value = 0.0F;
    stream_.copy_d2h(&value, values_.data(), 4);
    return value;
  }

  Gpu gpu_{0};
  Stream stream_;
  DeviceArray<float> values_{gpu_, 4, "values"};
  PinnedArray<float> pinned_{4};
};

TEST_F(CudaEmulator, RunsWorkOnlyOnSynchronization) {
  set(1.0F);
  copy_h2d();
  set(2.0F);  // too early: the copy has not run
  EXPECT_EQ(read(), 2.0F);
  set(3.0F);
  copy_d2h();
  EXPECT_EQ(host(), 3.0F);
  stream_.synchronize();
  EXPECT_EQ(host(), 2.0F);
}

TEST_F(CudaEmulator, EventsCompleteWhenPolled) {
  Event event;
  copy_h2d();
  copy_h2d();
  stream_.record(event);
  EXPECT_FALSE(event.done());
  EXPECT_TRUE(event.done());
}

TEST_F(CudaEmulator, RejectsOperationsForbiddenInACapture) {
  Stream other;
  Event before;
  Event within;
  stream_.record(before);
  float pageable = 0.0F;
  stream_.begin_capture();
  EXPECT_THROW(stream_.copy_h2d(values_.data(), &pageable, 4), std::logic_error);
  EXPECT_THROW(stream_.copy_d2h(&pageable, values_.data(), 4), std::logic_error);
  EXPECT_THROW(stream_.wait_event(before.native()), std::logic_error);
  stream_.record(within);
  EXPECT_THROW(within.done(), std::logic_error);
  stream_.end_capture();
  EXPECT_THROW(other.wait_event(within.native()), std::logic_error);

  const auto capture = [&](const std::function<void()>& work) {
    stream_.begin_capture();
    work();
    stream_.end_capture();
  };
  EXPECT_NO_THROW(capture([] {}));
  EXPECT_THROW(capture([&] { EXPECT_THROW(PinnedArray<float>(1), std::logic_error); }), std::logic_error);
  auto extra = std::make_unique<DeviceArray<float>>(gpu_, 1, "more");
  EXPECT_THROW(capture([&] { extra.reset(); }), std::logic_error);
}

TEST_F(CudaEmulator, RejectsMemoryOutsideTheDevice) {
  float value = 0.0F;
  EXPECT_THROW(stream_.copy_h2d(&value, pinned_.data(), 4), std::logic_error);
  EXPECT_THROW(stream_.copy_h2d(values_.data() + 1, pinned_.data(), 16), std::logic_error);
  EXPECT_THROW(stream_.memset_zero(values_.data() - 1, 8), std::logic_error);
  EXPECT_NO_THROW(stream_.memset_zero(values_.data() + 4, 0));
}

class CudaEmulatedBackend : public ::testing::Test {
 protected:
  static BackendOptions options(Precision precision, Toggle graph = Toggle::automatic) {
    return {.device = device::DeviceChoice::cuda, .precision = precision, .cuda_graph = graph};
  }
  static float first(Device& device, const Buffer& buffer) {
    device.synchronize();
    return buffer.data()[0];
  }

  Device backend{options(Precision::fp32), 0};
  Buffer buffer = backend.make_buffer(1);
  std::unique_ptr<device::StepState> step = backend.make_step_state();
};

TEST_F(CudaEmulatedBackend, OutOfMemoryThrowsAndMemoryIsReleased) {
  Device small(options(Precision::fp32), 1);
  auto half = small.make_buffer(128 << 10);
  EXPECT_THROW(small.make_buffer(200 << 10), RunError);
  half = {};
  EXPECT_NO_THROW(small.make_buffer(200 << 10));
  EXPECT_GE(small.facts().peak_bytes, 800 << 10);
}

TEST_F(CudaEmulatedBackend, CaptureRunsOnceAndReplays) {
  auto from = backend.make_buffer(3);
  auto to = backend.make_buffer(3);
  int calls = 0;
  const auto recording = backend.capture([&] {
    ++calls;
    backend.copy(to, {0, 1}, to, 1);  // the previous contents of `to`
    backend.copy(from, {0, 1}, to, 0);
  });
  ASSERT_NE(recording, nullptr);
  EXPECT_EQ(calls, 2);
  backend.synchronize();
  backend.fill(from, 4.0F);
  EXPECT_EQ(first(backend, to), 0.0F);
  EXPECT_TRUE(backend.replay(*recording));
  EXPECT_EQ(first(backend, to), 4.0F);
  EXPECT_EQ(to.data()[1], 0.0F) << "the first run ran once";
  EXPECT_EQ(calls, 2);
}

TEST_F(CudaEmulatedBackend, DoesNotCaptureIfDisabled) {
  Device eager(options(Precision::fp32, Toggle::off), 0);
  int calls = 0;
  EXPECT_EQ(eager.capture([&] { ++calls; }), nullptr);
  EXPECT_EQ(calls, 1);
}

TEST_F(CudaEmulatedBackend, ReallocationInvalidatesGraphs) {
  // The first inspection allocates memory for its sums.
  device::StepParams clips;
  clips.rule.clip_norm = 1.0F;
  backend.begin_step(clips, *step);
  const auto record = [&] {
    return backend.capture([&] { backend.accumulate_gradient_stats(buffer, {0, 1}, *step); });
  };
  const auto recording = record();
  EXPECT_TRUE(backend.replay(*recording));
  auto more = backend.make_buffer(7);
  EXPECT_TRUE(backend.replay(*recording)) << "new memory does not reallocate";
  // A larger batch reallocates.
  const auto made = backend.make_batch();
  Batch& batch = own<Batch>(*made);
  batch.reserve(3, 10, 20, true, false);
  EXPECT_FALSE(backend.replay(*recording));
  const auto again = record();
  EXPECT_TRUE(backend.replay(*again));
  batch.reserve(3, 10, 20, true, false);
  batch.reserve(2, 8, 20, true, false);
  EXPECT_TRUE(backend.replay(*again));
  backend.synchronize();
}

TEST_F(CudaEmulatedBackend, DeviceIsUsableAfterAFailedCapture) {
  EXPECT_THROW(backend.capture([&] { throw std::runtime_error("no"); }), std::runtime_error);
  int calls = 0;
  EXPECT_THROW(backend.capture([&] {
    if (++calls == 2) backend.begin_step({}, *step);
  }),
               std::logic_error);
  EXPECT_THROW(backend.capture([&] { backend.synchronize(); }), std::logic_error);
  const auto made = backend.make_batch();
  const auto grow = [&] { own<Batch>(*made).reserve(++calls, 1, 1, false, false); };
  EXPECT_THROW(backend.capture(grow), std::logic_error) << "memory cannot grow during a capture";
  backend.fill(buffer, 3.0F);
  EXPECT_EQ(first(backend, buffer), 3.0F);
  EXPECT_NE(backend.capture([&] { backend.fill(buffer, 4.0F); }), nullptr);
}

TEST_F(CudaEmulatedBackend, PollsLossesWithoutBlocking) {
  EXPECT_FALSE(backend.poll_losses(*step).has_value());
  const auto skip = [&] {
    backend.begin_step({}, *step);
    backend.fill(backend.gradient_stats(*step), 1.0F);
    backend.end_step(*step);
  };
  skip();
  skip();
  std::int64_t seen = 0;
  for (int poll = 0; poll < 100 && seen < 2; ++poll) {
    const auto look = backend.poll_losses(*step);
    if (!look) continue;
    EXPECT_GE(look->skipped, seen);
    seen = look->skipped;
  }
  EXPECT_EQ(seen, 2);
  skip();
  EXPECT_EQ(backend.sums(*step).losses.skipped, 3);
  EXPECT_EQ(backend.poll_losses(*step)->skipped, 3);
  skip();
  backend.set_losses({}, *step);
  for (int poll = 0; poll < 100; ++poll) {
    const auto look = backend.poll_losses(*step);
    EXPECT_TRUE(!look || look->skipped == 0);
  }
  EXPECT_TRUE(backend.poll_losses(*step).has_value());
}

// Replays do not block: without a limit the host would run ahead until the runtime's stream is full.
TEST_F(CudaEmulatedBackend, HostRunsAheadByALimitedNumberOfSteps) {
  constexpr std::uint64_t work_of_step = 50;
  const auto recording = backend.capture([&] {
    for (std::uint64_t i = 0; i < work_of_step; ++i) backend.fill(buffer, 1.0F);
  });
  ASSERT_NE(recording, nullptr);
  const auto ahead = [] {
    std::uint64_t most = 0;
    for (const auto& weak : emulator::runtime().timelines) {
      if (const auto timeline = weak.lock()) most = std::max(most, timeline->queued - timeline->done);
    }
    return most;
  };
  const auto run = [&] {
    backend.begin_step({}, *step);
    EXPECT_TRUE(backend.replay(*recording));
  };
  backend.synchronize();
  for (int i = 0; i < 8; ++i) run();
  EXPECT_GE(ahead(), 8 * work_of_step) << "the host does not block yet";
  for (int i = 0; i < 100; ++i) run();
  EXPECT_LE(ahead(), 20 * work_of_step);
}

TEST_F(CudaEmulatedBackend, MarksOfSeveralStepsAreDistinct) {
  const device::EventHandle first_point = backend.record_event();
  for (int i = 0; i < 200; ++i) EXPECT_NE(backend.record_event().event, first_point.event);
  backend.wait_event(first_point);
  backend.wait_event({});
  backend.fill(buffer, 1.0F);
  EXPECT_EQ(first(backend, buffer), 1.0F);
}

TEST(CudaKernels, UnalignedVectorAccessThrows) {
  alignas(16) float values[12] = {};
  EXPECT_NO_THROW(store_vec8(values + 4, load_vec8(values)));
  EXPECT_THROW(load_vec8(values + 1), std::logic_error);
  EXPECT_THROW(store_vec8(values + 2, Vec8{}), std::logic_error);
}

TEST(CudaKernels, FastExponentialIsAccurateAndHasNoSubnormalNumbers) {
  for (const float maximum : {0.0F, 3.25F, -40.0F, 300.0F}) {
    for (const float factor : {1.0F, 0.003F, 512.0F}) {
      const RowExponential<Bf16> fast(maximum, factor);
      for (float below = 0.0F; below < 80.0F; below += 0.37F) {
        const float logit = maximum - below;
        const double exact = factor * std::exp(static_cast<double>(logit) - static_cast<double>(maximum));
        const double error = 0x1p-22 + (below + std::abs(maximum) + std::abs(std::log(factor))) * 0x1p-23;
        EXPECT_NEAR(static_cast<double>(fast(logit)) / exact, 1.0, error) << logit << " of " << maximum;
        EXPECT_EQ(RowExponential<float>(maximum, factor)(logit), factor * std::exp(logit - maximum));
      }
    }
  }
  const float infinity = std::numeric_limits<float>::infinity();
  const float lowest = SoftmaxPart().maximum;
  EXPECT_EQ(RowExponential<Fp16>(0.0F)(-90.0F), 0.0F);
  EXPECT_EQ(RowExponential<Fp16>(0.0F)(-infinity), 0.0F);
  EXPECT_EQ(RowExponential<Bf16>(5.0F, 0.0F)(5.0F), 0.0F) << "a user without items";
  EXPECT_EQ(RowExponential<Bf16>(lowest)(-infinity), 0.0F) << "a row of -infinity";
  EXPECT_EQ(RowExponential<Bf16>(2.0F)(lowest), 0.0F) << "the start of a maximum";
  EXPECT_TRUE(std::isnan(RowExponential<Bf16>(0.0F)(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace vaecf::cuda
