#include <cuda_runtime_api.h>
#include <vaecf/backend/cuda/platform.hpp>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "check.cuh"

namespace vaecf::cuda {

struct Event::State {
  explicit State(Timing timing) {
    check(cudaEventCreateWithFlags(&event, timing == Timing::on ? cudaEventDefault : cudaEventDisableTiming),
          "making an event");
  }
  ~State() { cudaEventDestroy(event); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  cudaEvent_t event = nullptr;
};

Event::Event(Timing timing) : state_(std::make_unique<State>(timing)) {}
Event::~Event() = default;
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(Event&&) noexcept = default;

bool Event::done() const {
  const cudaError_t status = cudaEventQuery(state_->event);
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check(status, "looking at an event");
  return true;
}

void* Event::native() const {
  return state_->event;
}

double Event::seconds_between(const Event& from, const Event& to) {
  float milliseconds = 0.0F;
  check(cudaEventElapsedTime(&milliseconds, from.state_->event, to.state_->event),
        "taking the time between events");
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

CapturedGraph::CapturedGraph(std::unique_ptr<State> state) : state_(std::move(state)) {}
CapturedGraph::~CapturedGraph() = default;
CapturedGraph::CapturedGraph(CapturedGraph&&) noexcept = default;

struct Queue::State {
  explicit State(Urgency urgency) {
    int least = 0;
    int greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for stream priorities");
    // Non-blocking: never ordered with the default stream, which libraries may use.
    check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                       urgency == Urgency::high ? greatest : least),
          "making a stream");
  }
  ~State() {
    if (capturing) abandon_capture();
    cudaStreamDestroy(stream);  // what is in it still runs to its end
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void abandon_capture() noexcept {
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
  }

  cudaStream_t stream = nullptr;
  bool capturing = false;
};

Queue::Queue(Urgency urgency) : state_(std::make_unique<State>(urgency)) {}
Queue::~Queue() = default;

void Queue::copy_in(void* device, const void* host, std::int64_t bytes) {
  if (bytes == 0) return;
  check(
      cudaMemcpyAsync(device, host, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, state_->stream),
      "a copy to the GPU");
}

void Queue::copy_out(void* host, const void* device, std::int64_t bytes) {
  if (bytes == 0) return;
  check(
      cudaMemcpyAsync(host, device, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost, state_->stream),
      "a copy from the GPU");
}

void Queue::copy(void* to, const void* from, std::int64_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, state_->stream),
        "a copy on the GPU");
}

void Queue::clear(void* device, std::int64_t bytes) {
  if (bytes == 0) return;
  check(cudaMemsetAsync(device, 0, static_cast<std::size_t>(bytes), state_->stream), "clearing GPU memory");
}

void Queue::record(Event& event) {
  check(cudaEventRecord(static_cast<cudaEvent_t>(event.native()), state_->stream), "recording an event");
}

void Queue::wait_for(void* event) {
  if (event == nullptr) return;
  check(cudaStreamWaitEvent(state_->stream, static_cast<cudaEvent_t>(event), 0), "waiting for an event");
}

void Queue::finish() {
  if (state_->capturing) throw std::logic_error("waiting for a queue that captures");
  // Short waits spin; in longer ones the core goes to other threads, and in long ones a little sleep costs
  // nothing.
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

void Queue::begin_capture() {
  if (state_->capturing) throw std::logic_error("a capture within a capture");
  // Thread local: calls that a capture cannot hold (allocation, waiting) are refused on this thread, where
  // they would be our bug, while other threads, as NCCL's and a watchdog's, go on. Global would refuse theirs
  // and void our capture; relaxed would let ours pass, to fail at replay.
  check(cudaStreamBeginCapture(state_->stream, cudaStreamCaptureModeThreadLocal),
        "starting to record a step");
  state_->capturing = true;
}

CapturedGraph Queue::end_capture() {
  if (!state_->capturing) throw std::logic_error("ending no capture");
  state_->capturing = false;
  cudaGraph_t captured = nullptr;
  check(cudaStreamEndCapture(state_->stream, &captured), "recording a step");
  auto graph = std::make_unique<CapturedGraph::State>();
  // Work keeps the priority of the queue that it was put into: the communicator's stays urgent.
  const cudaError_t status =
      cudaGraphInstantiate(&graph->runnable, captured, cudaGraphInstantiateFlagUseNodePriority);
  cudaGraphDestroy(captured);
  check(status, "making a recorded step ready to run");
  return CapturedGraph(std::move(graph));
}

void Queue::run(const CapturedGraph& graph) {
  if (state_->capturing) throw std::logic_error("a graph within a capture");
  check(cudaGraphLaunch(graph.state().runnable, state_->stream), "starting a recorded step");
}

bool Queue::capturing() const {
  return state_->capturing;
}

void* Queue::native() const {
  return state_->stream;
}

}  // namespace vaecf::cuda
