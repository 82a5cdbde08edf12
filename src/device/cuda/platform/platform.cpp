#include <vaecf/base/failure.hpp>
#include <vaecf/device/cuda_info.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "device/cuda/platform/check.cuh"
#include "device/cuda/platform/gpu.hpp"
#include "device/cuda/platform/memory.hpp"
#include "device/cuda/platform/stream.hpp"

namespace vaecf::cuda {

struct Gpu::State {
  explicit State(int index) : number(index) {
    // Must be the first CUDA call: any other would create a context on device 0, with its memory.
    check(cudaSetDevice(index), "selecting the GPU");
    facts = query_cuda_info().gpus.at(static_cast<std::size_t>(index));
    check(cudaStreamCreateWithFlags(&clearing, cudaStreamNonBlocking), "creating a stream");
  }
  ~State() { cudaStreamDestroy(clearing); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  int number;
  GpuInfo facts;
  cudaStream_t clearing = nullptr;
  std::int64_t used = 0;
  std::int64_t peak = 0;
};

Gpu::Gpu(int index) : state_(std::make_unique<State>(index)) {}
Gpu::~Gpu() = default;

void Gpu::make_current() const {
  check(cudaSetDevice(state_->number), "selecting the GPU");
}
int Gpu::index() const {
  return state_->number;
}
std::string Gpu::name() const {
  return state_->facts.name;
}
std::string Gpu::id() const {
  return state_->facts.id;
}

std::int64_t Gpu::free_bytes() const {
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "querying free memory");
  return static_cast<std::int64_t>(free);
}
std::int64_t Gpu::total_bytes() const {
  return state_->facts.memory_bytes;
}
std::int64_t Gpu::peak_bytes() const {
  return state_->peak;
}

void* Gpu::allocate(std::int64_t bytes, const char* what) {
  void* memory = nullptr;
  const auto size = static_cast<std::size_t>(bytes);
  const cudaError_t status = cudaMalloc(&memory, size);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error, which the next call would return otherwise
    throw CausedError(FailureCode::memory,
                      explain_full_memory(what, bytes, free_bytes(), total_bytes(), state_->used));
  }
  check(status, what);
  state_->used += bytes;
  state_->peak = std::max(state_->peak, state_->used);
  try {
    // Streams here do not synchronize with the default stream, on which cudaMemset runs. So the zeros must be
    // complete before the address is returned.
    check(cudaMemsetAsync(memory, 0, size, state_->clearing), what);
    check(cudaStreamSynchronize(state_->clearing), what);
  } catch (...) {
    release(memory, bytes);
    throw;
  }
  return memory;
}

void Gpu::release(void* memory, std::int64_t bytes) noexcept {
  // cudaFree may wait for work that uses the memory, but does not guarantee it.
  cudaDeviceSynchronize();
  cudaFree(memory);
  cudaGetLastError();
  state_->used -= bytes;
}

void* allocate_pinned(std::int64_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaHostAlloc(&memory, static_cast<std::size_t>(bytes), cudaHostAllocDefault);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw CausedError(
        FailureCode::memory,
        format(
            "cannot allocate {:.1f} MiB of pinned host memory; free host memory, or raise the limit of locked memory (ulimit -l; in containers --ulimit memlock=-1)",
            static_cast<double>(bytes) / (1 << 20)));
  }
  check(status, "pinned host memory");
  return memory;
}

void release_pinned(void* memory) noexcept {
  cudaDeviceSynchronize();  // copies may be in progress
  cudaFreeHost(memory);
  cudaGetLastError();
}

struct Event::State {
  explicit State(Timing timing) {
    check(cudaEventCreateWithFlags(&event, timing == Timing::on ? cudaEventDefault : cudaEventDisableTiming),
          "creating an event");
  }
  ~State() { cudaEventDestroy(event); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  cudaEvent_t event = nullptr;
};

Event::Event(Timing timing) : state_(std::make_shared<State>(timing)) {}

bool Event::done() const {
  const cudaError_t status = cudaEventQuery(state_->event);
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check(status, "querying an event");
  return true;
}

void* Event::native() const {
  return state_->event;
}

double Event::seconds_between(const Event& from, const Event& to) {
  float milliseconds = 0.0F;
  check(cudaEventElapsedTime(&milliseconds, from.state_->event, to.state_->event),
        "measuring the time between events");
  return 1e-3 * static_cast<double>(milliseconds);
}

struct CapturedGraph::State {
  State() = default;
  ~State() {
    if (runnable != nullptr) cudaGraphExecDestroy(runnable);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  cudaGraphExec_t runnable = nullptr;
};

struct Stream::State {
  explicit State(StreamPriority priority) {
    int least = 0;
    int greatest = 0;  // numerically less than `least`
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "querying the stream priorities");
    const int number = priority == StreamPriority::raised ? std::max(greatest, least - 1) : least;
    // Non-blocking: not synchronized with the default stream, which libraries may use.
    check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, number), "creating a stream");
  }
  ~State() {
    if (capturing) discard_capture();
    cudaStreamDestroy(stream);  // work in it still completes
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void discard_capture() noexcept {
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
  }

  cudaStream_t stream = nullptr;
  bool capturing = false;
};

Stream::Stream(StreamPriority priority) : state_(std::make_unique<State>(priority)) {}
Stream::~Stream() = default;

void Stream::copy_h2d(void* device, const void* host, std::int64_t bytes) {
  if (bytes == 0) return;
  check(
      cudaMemcpyAsync(device, host, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, state_->stream),
      "a copy to the GPU");
}

void Stream::copy_d2h(void* host, const void* device, std::int64_t bytes) {
  if (bytes == 0) return;
  check(
      cudaMemcpyAsync(host, device, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost, state_->stream),
      "a copy from the GPU");
}

void Stream::copy(void* to, const void* from, std::int64_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, state_->stream),
        "a copy on the GPU");
}

void Stream::memset_zero(void* device, std::int64_t bytes) {
  if (bytes == 0) return;
  check(cudaMemsetAsync(device, 0, static_cast<std::size_t>(bytes), state_->stream), "clearing GPU memory");
}

void Stream::record(Event& event) {
  check(cudaEventRecord(static_cast<cudaEvent_t>(event.native()), state_->stream), "recording an event");
}

void Stream::wait_event(void* event) {
  if (event == nullptr) return;
  check(cudaStreamWaitEvent(state_->stream, static_cast<cudaEvent_t>(event), 0), "waiting for an event");
}

void Stream::synchronize() {
  if (state_->capturing) throw std::logic_error("Stream::synchronize: must not be called during a capture");
  // Short waits spin; longer ones yield the core to other threads, and still longer ones sleep.
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  for (;;) {
    const cudaError_t status = cudaStreamQuery(state_->stream);
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) check(status, "waiting for the GPU");
    cudaGetLastError();
    const auto waited = Clock::now() - begin;
    if (waited < std::chrono::microseconds(50)) continue;
    if (waited < std::chrono::milliseconds(2)) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

void Stream::begin_capture() {
  if (state_->capturing) throw std::logic_error("a capture within a capture");
  // Thread local: operations that a capture does not allow (allocation, waiting) fail on this thread, which
  // would be a bug of this program, while other threads, such as NCCL's and the watchdog's, are not affected.
  // Mode global would fail their calls and invalidate the capture; relaxed would allow this thread's calls,
  // which then fail at replay.
  check(cudaStreamBeginCapture(state_->stream, cudaStreamCaptureModeThreadLocal), "starting a graph capture");
  state_->capturing = true;
}

CapturedGraph Stream::end_capture() {
  if (!state_->capturing) throw std::logic_error("Stream::end_capture: no capture is active");
  state_->capturing = false;
  cudaGraph_t captured = nullptr;
  check(cudaStreamEndCapture(state_->stream, &captured), "capturing a step");
  auto graph = std::make_shared<CapturedGraph::State>();
  // Nodes keep the priority of their stream, so that communication remains urgent.
  const cudaError_t status =
      cudaGraphInstantiate(&graph->runnable, captured, cudaGraphInstantiateFlagUseNodePriority);
  cudaGraphDestroy(captured);
  check(status, "instantiating a graph");
  return CapturedGraph(std::move(graph));
}

void Stream::run(const CapturedGraph& graph) {
  if (state_->capturing) throw std::logic_error("a graph within a capture");
  check(cudaGraphLaunch(graph.state().runnable, state_->stream), "launching a graph");
}

bool Stream::capturing() const {
  return state_->capturing;
}

void* Stream::native() const {
  return state_->stream;
}

}  // namespace vaecf::cuda
