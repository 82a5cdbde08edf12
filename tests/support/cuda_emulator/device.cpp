#include <vaecf/base/error.hpp>
#include <vaecf/base/timeline.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "device/cuda/platform/memory.hpp"
#include "support/cuda_emulator/runtime.hpp"

namespace vaecf::cuda {
namespace emulator {

Runtime& runtime() {
  static Runtime the_runtime;
  return the_runtime;
}

namespace {

bool inside(const std::map<const std::byte*, std::int64_t>& ranges, const void* memory, std::int64_t bytes) {
  const auto* begin = static_cast<const std::byte*>(memory);
  const auto next = ranges.upper_bound(begin);
  if (next == ranges.begin()) return false;
  const auto& [first, size] = *std::prev(next);
  return begin + bytes <= first + size;
}

/// Invalidates the captures of this thread, because memory is allocated or released. Returns whether there
/// are any.
bool spoil_captures() {
  bool any = false;
  for (Capture* capture : runtime().captures) {
    if (capture->thread != std::this_thread::get_id()) continue;
    any = true;
    capture->spoiled = true;
  }
  return any;
}

void* aligned_zeros(std::int64_t bytes) {
  void* memory = nullptr;
  // Exact size, so that AddressSanitizer detects accesses beyond the end.
  if (posix_memalign(&memory, 256, static_cast<std::size_t>(bytes)) != 0) throw std::bad_alloc();
  std::memset(memory, 0, static_cast<std::size_t>(bytes));
  return memory;
}

}  // namespace

bool is_pinned(const void* memory, std::int64_t bytes) {
  const std::lock_guard lock(runtime().mutex);
  return inside(runtime().pinned, memory, bytes);
}

void require_device(const void* memory, std::int64_t bytes, const char* what) {
  if (bytes == 0) return;
  const std::lock_guard lock(runtime().mutex);
  if (bytes < 0 || !inside(runtime().device, memory, bytes)) {
    throw std::logic_error(std::string(what) + ": not within one allocation of the device");
  }
}

void run_until(Timeline& timeline, std::uint64_t position) {
  const std::lock_guard lock(runtime().mutex);
  while (timeline.done < position) {
    const std::function<void()> work = std::move(timeline.pending.front());
    timeline.pending.pop_front();
    work();
    ++timeline.done;
  }
}

void run_until_point(const Point& point) {
  const std::lock_guard lock(runtime().mutex);
  if (point.capture) throw std::logic_error("the host waits for an event of a capture");
  if (point.timeline) run_until(*point.timeline, point.position);
}

void run_all() {
  const std::lock_guard lock(runtime().mutex);
  std::erase_if(runtime().timelines, [](const auto& timeline) { return timeline.expired(); });
  for (const auto& weak : std::vector(runtime().timelines)) {
    if (const auto timeline = weak.lock()) run_until(*timeline, timeline->queued);
  }
}

}  // namespace emulator

struct Gpu::State {
  int index = 0;
  std::int64_t total = 0;
  std::int64_t used = 0;
  std::int64_t peak = 0;
};

// GPU n > 0 has n MiB, for tests of exhausted memory.
Gpu::Gpu(int index) : state_(std::make_unique<State>()) {
  state_->index = index;
  state_->total = index > 0 ? std::int64_t{index} << 20 : std::int64_t{1} << 40;
}
Gpu::~Gpu() = default;
void Gpu::make_current() const {}
int Gpu::index() const {
  return state_->index;
}
std::string Gpu::name() const {
  return "an emulated GPU on the host";
}
std::string Gpu::id() const {
  return "EMULATED-" + std::to_string(state_->index);
}
std::int64_t Gpu::free_bytes() const {
  return state_->total - state_->used;
}
std::int64_t Gpu::total_bytes() const {
  return state_->total;
}
std::int64_t Gpu::peak_bytes() const {
  return state_->peak;
}

void* Gpu::allocate(std::int64_t bytes, const char* what) {
  const std::lock_guard lock(emulator::runtime().mutex);
  if (emulator::spoil_captures()) throw std::logic_error(std::string(what) + ": allocated during a capture");
  if (bytes > free_bytes()) throw RunError(std::string(what) + ": the emulator's memory is full");
  void* memory = emulator::aligned_zeros(bytes);
  ++emulator::runtime().allocations;
  emulator::runtime().device.emplace(static_cast<std::byte*>(memory), bytes);
  state_->used += bytes;
  state_->peak = std::max(state_->peak, state_->used);
  return memory;
}

void Gpu::release(void* memory, std::int64_t bytes) noexcept {
  const std::lock_guard lock(emulator::runtime().mutex);
  emulator::spoil_captures();
  emulator::run_all();
  emulator::runtime().device.erase(static_cast<std::byte*>(memory));
  state_->used -= bytes;
  std::free(memory);
}

void* allocate_pinned(std::int64_t bytes) {
  const std::lock_guard lock(emulator::runtime().mutex);
  if (emulator::spoil_captures()) throw std::logic_error("pinned memory allocated during a capture");
  void* memory = emulator::aligned_zeros(bytes);
  ++emulator::runtime().allocations;
  emulator::runtime().pinned.emplace(static_cast<std::byte*>(memory), bytes);
  return memory;
}

void release_pinned(void* memory) noexcept {
  const std::lock_guard lock(emulator::runtime().mutex);
  emulator::spoil_captures();
  emulator::run_all();
  emulator::runtime().pinned.erase(static_cast<std::byte*>(memory));
  std::free(memory);
}

}  // namespace vaecf::cuda
