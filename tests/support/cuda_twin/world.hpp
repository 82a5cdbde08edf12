#pragma once

#include <vaecf/device/cuda/platform.hpp>

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

/// The twin of a GPU that platform.hpp describes: device memory is host memory, kernels are loops. It is as
/// lazy as a GPU may be: what is put into a queue runs only when somebody waits for it or asks how far it is,
/// so that results read too early, and host memory changed too early, show. What the CUDA runtime refuses
/// throws std::logic_error.
namespace vaecf::cuda::twin {

/// A queue's work, in order.
struct Timeline {
  std::deque<std::function<void()>> pending;
  std::uint64_t queued = 0;
  std::uint64_t done = 0;
};

/// What a queue, and those that wait for it meanwhile, capture.
struct Capture {
  std::vector<std::function<void()>> work;  // in the order of the calls, which respects all waits
  const Timeline* origin = nullptr;
  std::thread::id thread;
  bool ended = false;
  bool spoilt = false;  // memory was released meanwhile
};

using Reached = std::chrono::steady_clock::time_point;

/// Where an event stands.
struct Point {
  std::shared_ptr<Timeline> timeline;  // null: nothing recorded
  std::uint64_t position = 0;
  std::shared_ptr<Capture> capture;  // where it was recorded in one
  std::shared_ptr<Reached> reached;  // null: takes no time
};

/// What the CUDA runtime knows about the process. Ranks may be threads, so one lock guards all work.
struct World {
  std::recursive_mutex mutex;
  std::map<const std::byte*, std::int64_t> device;  // memory: begin and size
  std::map<const std::byte*, std::int64_t> pinned;
  std::vector<std::weak_ptr<Timeline>> timelines;
  std::vector<Capture*> captures;  // under way
};

World& world();
/// std::logic_error unless all of it lies within one allocation.
void require_device(const void* memory, std::int64_t bytes, const char* what);
bool is_pinned(const void* memory, std::int64_t bytes);
void run_until(Timeline& timeline, std::uint64_t position);
/// std::logic_error where it was recorded in a capture.
void run_until_point(const Point& point);
/// As releasing memory does: waits for all queues.
void run_all();

}  // namespace vaecf::cuda::twin

namespace vaecf::cuda {

struct Event::State {
  twin::Point point;
};

struct CapturedGraph::State {
  std::vector<std::function<void()>> work;
};

struct Queue::State {
  std::shared_ptr<twin::Timeline> timeline = std::make_shared<twin::Timeline>();
  std::shared_ptr<twin::Capture> capture;
  bool capturing() const { return capture && !capture->ended; }
};

}  // namespace vaecf::cuda
