#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "support/cuda_emulator/launch.hpp"
#include "support/cuda_emulator/runtime.hpp"

namespace vaecf::cuda {
namespace {

[[noreturn]] void refuse(const char* what) {
  throw std::logic_error(std::string("a GPU would reject this: ") + what);
}

}  // namespace

Event::Event(Timing timing) : state_(std::make_shared<State>()) {
  if (timing == Timing::on) state_->point.reached = std::make_shared<emulator::Reached>();
}

bool Event::done() const {
  const std::lock_guard lock(emulator::runtime().mutex);
  const emulator::Point& point = state_->point;
  if (point.capture) refuse("querying an event that was recorded in a capture");
  if (!point.timeline) return true;
  // Every query lets some work proceed.
  if (point.timeline->done < point.position) emulator::run_until(*point.timeline, point.timeline->done + 1);
  return point.timeline->done >= point.position;
}

void* Event::native() const {
  return &state_->point;
}

double Event::seconds_between(const Event& from, const Event& to) {
  const std::lock_guard lock(emulator::runtime().mutex);
  for (const Event* event : {&from, &to}) {
    const emulator::Point& point = event->state_->point;
    if (!point.reached || !point.timeline) refuse("the time of an event without timing");
    if (point.capture) refuse("the time of an event that was recorded in a capture");
    if (point.timeline->done < point.position) refuse("the time of an event that is not completed");
  }
  return std::chrono::duration<double>(*to.state_->point.reached - *from.state_->point.reached).count();
}

Stream::Stream(StreamPriority) : state_(std::make_unique<State>()) {
  const std::lock_guard lock(emulator::runtime().mutex);
  emulator::runtime().timelines.push_back(state_->timeline);
}

Stream::~Stream() {
  const std::lock_guard lock(emulator::runtime().mutex);
  emulator::run_until(*state_->timeline, state_->timeline->queued);
  if (state_->capture) std::erase(emulator::runtime().captures, state_->capture.get());
}

void perform(Stream& stream, std::function<void()> work) {
  const std::lock_guard lock(emulator::runtime().mutex);
  Stream::State& state = stream.state();
  if (state.capturing()) {
    state.capture->work.push_back(std::move(work));
    state.clock[state.timeline.get()] = ++state.capture->clock[state.timeline.get()];
  } else {
    state.timeline->pending.push_back(std::move(work));
    ++state.timeline->queued;
  }
}

void Stream::copy_h2d(void* device, const void* host, std::int64_t bytes) {
  emulator::require_device(device, bytes, "copy_h2d");
  const auto size = static_cast<std::size_t>(bytes);
  if (size == 0) return;
  if (emulator::is_pinned(host, bytes)) {
    perform(*this, [=] { std::memcpy(device, host, size); });
    return;
  }
  if (capturing()) refuse("a copy from pageable memory in a capture");
  // The runtime copies pageable memory to a staging buffer before it returns.
  const auto* begin = static_cast<const std::byte*>(host);
  perform(*this, [device, staged = std::vector<std::byte>(begin, begin + size)] {
    std::memcpy(device, staged.data(), staged.size());
  });
}

void Stream::copy_d2h(void* host, const void* device, std::int64_t bytes) {
  emulator::require_device(device, bytes, "copy_d2h");
  const auto size = static_cast<std::size_t>(bytes);
  if (size == 0) return;
  if (emulator::is_pinned(host, bytes)) {
    perform(*this, [=] { std::memcpy(host, device, size); });
    return;
  }
  if (capturing()) refuse("a copy to pageable memory in a capture");
  synchronize();
  std::memcpy(host, device, size);
}

void Stream::copy(void* to, const void* from, std::int64_t bytes) {
  emulator::require_device(to, bytes, "copy");
  emulator::require_device(from, bytes, "copy");
  if (bytes > 0) perform(*this, [=] { std::memcpy(to, from, static_cast<std::size_t>(bytes)); });
}

void Stream::memset_zero(void* device, std::int64_t bytes) {
  emulator::require_device(device, bytes, "clear");
  if (bytes > 0) perform(*this, [=] { std::memset(device, 0, static_cast<std::size_t>(bytes)); });
}

void Stream::record(Event& event) {
  const std::lock_guard lock(emulator::runtime().mutex);
  auto& point = *static_cast<emulator::Point*>(event.native());
  // A new object, because an earlier record() of this event that is still queued writes to the old one.
  const auto reached = point.reached ? std::make_shared<emulator::Reached>() : nullptr;
  point = {};
  point.reached = reached;
  if (reached) perform(*this, [reached] { *reached = emulator::Reached::clock::now(); });
  if (capturing()) {
    point.capture = state_->capture;
    point.clock = state_->clock;
  }
  point.timeline = state_->timeline;
  point.position = state_->timeline->queued;
}

void Stream::wait_event(void* event) {
  if (event == nullptr) return;
  const std::lock_guard lock(emulator::runtime().mutex);
  const auto& point = *static_cast<const emulator::Point*>(event);
  if (point.capture) {
    if (point.capture->ended) refuse("waiting for an event of a capture that has ended");
    if (!capturing()) {
      state_->capture = point.capture;
      state_->clock.clear();
    }
    if (state_->capture != point.capture) refuse("waiting for an event of another capture");
    for (const auto& [stream, operations] : point.clock)
      state_->clock[stream] = std::max(state_->clock[stream], operations);
    return;
  }
  if (!point.timeline) return;
  if (capturing()) refuse("waiting in a capture for an event from before it");
  perform(*this, [timeline = point.timeline, position = point.position] {
    emulator::run_until(*timeline, position);
  });
}

void Stream::synchronize() {
  if (capturing()) refuse("waiting for a stream that captures");
  emulator::run_until(*state_->timeline, state_->timeline->queued);
}

void Stream::begin_capture() {
  const std::lock_guard lock(emulator::runtime().mutex);
  if (capturing()) refuse("a capture within a capture");
  state_->capture = std::make_shared<emulator::Capture>();
  state_->clock.clear();
  state_->capture->origin = state_->timeline.get();
  state_->capture->thread = std::this_thread::get_id();
  emulator::runtime().captures.push_back(state_->capture.get());
}

CapturedGraph Stream::end_capture() {
  const std::lock_guard lock(emulator::runtime().mutex);
  if (!capturing() || state_->capture->origin != state_->timeline.get())
    refuse("ending a capture that was not begun");
  emulator::Capture& capture = *state_->capture;
  capture.ended = true;
  std::erase(emulator::runtime().captures, &capture);
  if (capture.spoiled) refuse("a capture during which memory was allocated or released");
  if (state_->clock != capture.clock) refuse("a capture without the end of another stream's work");
  auto graph = std::make_shared<CapturedGraph::State>();
  graph->work = std::move(capture.work);
  emulator::runtime().captured = graph->work.size();
  return CapturedGraph(std::move(graph));
}

void Stream::run(const CapturedGraph& graph) {
  if (capturing()) refuse("a graph within a capture");
  for (const auto& work : graph.state().work) perform(*this, work);
}

bool Stream::capturing() const {
  const std::lock_guard lock(emulator::runtime().mutex);
  return state_->capturing();
}

void* Stream::native() const {
  return state_.get();
}

}  // namespace vaecf::cuda
