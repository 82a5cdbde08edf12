#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "device/cuda/platform/stream.hpp"

/// Host emulation of the GPU of src/device/cuda/platform: device memory is host memory, kernels are loops.
/// Execution is as lazy as on a GPU: queued work runs only when the host waits for it or queries its
/// progress. Results that are read too early, and host memory that is changed too early, therefore become
/// visible. Calls that the CUDA runtime rejects throw std::logic_error.
namespace vaecf::cuda::emulator {

/// Work of a stream, in order.
struct Timeline {
  std::deque<std::function<void()>> pending;
  std::uint64_t queued = 0;
  std::uint64_t done = 0;
};

/// Number of captured operations of each stream.
using CaptureClock = std::map<const Timeline*, std::int64_t>;

/// Work captured by a stream, and by streams that wait for it meanwhile.
struct Capture {
  std::vector<std::function<void()>> work;  // in call order, which respects all waits
  CaptureClock clock;
  const Timeline* origin = nullptr;
  std::thread::id thread;
  bool ended = false;
  bool spoiled = false;  // memory was allocated or released during the capture
};

using Reached = std::chrono::steady_clock::time_point;

/// State of an event.
struct Point {
  std::shared_ptr<Timeline> timeline;  // null: not recorded
  std::uint64_t position = 0;
  std::shared_ptr<Capture> capture;  // capture in which it was recorded, if any
  CaptureClock clock;                // captured operations before it
  std::shared_ptr<Reached> reached;  // null: no timing
};

/// State of the emulated CUDA runtime. Ranks may be threads, so one lock guards all work.
struct Runtime {
  std::recursive_mutex mutex;
  std::map<const std::byte*, std::int64_t> device;  // begin and size of allocations
  std::map<const std::byte*, std::int64_t> pinned;
  std::int64_t allocations = 0;  // of device and pinned memory, so far
  std::vector<std::weak_ptr<Timeline>> timelines;
  std::vector<Capture*> captures;  // active captures
  std::size_t captured = 0;        // operations of the last graph
};

Runtime& runtime();
/// Throws std::logic_error unless the memory is within one allocation.
void require_device(const void* memory, std::int64_t bytes, const char* what);
bool is_pinned(const void* memory, std::int64_t bytes);
void run_until(Timeline& timeline, std::uint64_t position);
/// Runs the work before an event. Throws std::logic_error if the event was recorded in a capture.
void run_until_point(const Point& point);
/// Waits for all streams, as releasing memory does.
void run_all();

}  // namespace vaecf::cuda::emulator

namespace vaecf::cuda {

struct Event::State {
  emulator::Point point;
};

struct CapturedGraph::State {
  std::vector<std::function<void()>> work;
};

struct Stream::State {
  std::shared_ptr<emulator::Timeline> timeline = std::make_shared<emulator::Timeline>();
  std::shared_ptr<emulator::Capture> capture;
  emulator::CaptureClock clock;  // captured operations that the next one runs after
  bool capturing() const { return capture && !capture->ended; }
};

}  // namespace vaecf::cuda
