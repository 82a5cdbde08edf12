#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// All that the CUDA module asks of a GPU, as thin as it can be: memory, queues, events, recorded work,
/// products, scan and sort; kernels are started by src/device/cuda/platform/launch.hpp. There are two of it.
/// platform.cpp, matmuls.cpp and primitives.cu speak to the CUDA runtime, cuBLASLt and CUB. The twin in
/// tests/support/cuda_twin keeps "device memory" on the host, runs each block of a kernel on EmulatedLanes
/// and multiplies with plain loops: so every kernel body and all logic of this module are tested on machines
/// without a GPU, and only this layer is not.
namespace vaecf::cuda {

/// One GPU. Allocations are counted, zeroed, and 256-byte aligned.
class Gpu {
 public:
  /// Makes it the calling thread's device, which is the one thread that uses it. RunError if the device
  /// cannot be used.
  explicit Gpu(int index);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  int index() const;
  std::string name() const;  ///< "NVIDIA H100 80GB HBM3"
  std::string id() const;    ///< "GPU-01234567-..."
  std::int64_t free_bytes() const;
  std::int64_t total_bytes() const;
  std::int64_t peak_bytes() const;  ///< the most that was ever used by us

  /// `what` names it in the RunError that says how much was needed, how much is free and which setting helps.
  void* allocate(std::int64_t bytes, const char* what);
  void release(void* memory, std::int64_t bytes) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

enum class Timing { off, on };

/// A point in a queue.
class Event {
 public:
  /// With `timing`, seconds_between() can tell when the point was reached.
  explicit Event(Timing timing = Timing::off);
  /// Whether the work before it is done. RunError where the device failed. True where nothing was recorded.
  bool done() const;
  void* native() const;  ///< cudaEvent_t
  /// What passed on the device between two timed points that are done.
  static double seconds_between(const Event& from, const Event& to);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Work captured from a queue, to be run again.
class CapturedGraph {
 public:
  struct State;
  explicit CapturedGraph(std::shared_ptr<State> state) : state_(std::move(state)) {}
  State& state() const { return *state_; }

 private:
  std::shared_ptr<State> state_;
};

/// Work in order (a stream). Nothing here waits for the device but `finish`.
class Queue {
 public:
  Queue();
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  void copy_in(void* device, const void* host, std::int64_t bytes);   ///< asynchronous from pinned memory
  void copy_out(void* host, const void* device, std::int64_t bytes);  ///< likewise
  void copy(void* to, const void* from, std::int64_t bytes);          ///< on the device
  void clear(void* device, std::int64_t bytes);
  void record(Event& event);
  /// What follows here waits for `event`, a native one of any queue; null: for nothing.
  void wait_for(void* event);
  /// Waits until all is done. Throws RunError if the device failed.
  void finish();

  /// What is put into this queue (and into queues that wait for it) is captured instead of run. Other threads
  /// go on using queues and events of their own meanwhile (capture mode: thread local).
  void begin_capture();
  CapturedGraph end_capture();
  void run(const CapturedGraph& graph);
  bool capturing() const;

  void* native() const;  ///< cudaStream_t

  struct State;
  State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

/// Host memory that the device copies from at full speed and beside compute, and that kernels read by the
/// same pointer, over the bus.
void* allocate_pinned(std::int64_t bytes);
void release_pinned(void* memory) noexcept;

/// Memory on the device, zeroed at birth.
template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  DeviceArray(Gpu& gpu, std::int64_t size, const char* what) : size_(size) {
    if (size > 0) values_ = {static_cast<T*>(gpu.allocate(bytes(), what)), Release{&gpu, bytes()}};
  }
  T* data() { return values_.get(); }
  const T* data() const { return values_.get(); }
  std::int64_t size() const { return size_; }
  std::int64_t bytes() const { return size_ * static_cast<std::int64_t>(sizeof(T)); }

 private:
  struct Release {
    Gpu* gpu = nullptr;
    std::int64_t bytes = 0;
    void operator()(T* values) const { gpu->release(values, bytes); }
  };
  std::unique_ptr<T, Release> values_;
  std::int64_t size_ = 0;
};

template <class T>
class PinnedArray {
 public:
  PinnedArray() = default;
  explicit PinnedArray(std::int64_t size) : size_(size) {
    if (size > 0) {
      values_.reset(static_cast<T*>(allocate_pinned(size * static_cast<std::int64_t>(sizeof(T)))));
    }
  }
  T* data() { return values_.get(); }
  const T* data() const { return values_.get(); }
  std::int64_t size() const { return size_; }

 private:
  struct Release {
    void operator()(T* values) const { release_pinned(values); }
  };
  std::unique_ptr<T, Release> values_;
  std::int64_t size_ = 0;
};

enum class Number { fp32, bf16, fp16 };
inline std::int64_t size_of(Number number) {
  return number == Number::fp32 ? 4 : 2;
}

/// c (m, n) = a (m, k) b (k, n), plus what was in c if `accumulate` is set, or plus `bias` (n) on every row
/// if one is given. Row-major with leading dimensions; a transposed operand is stored (k, m) or (n, k). Sums
/// in fp32.
struct MatmulSpec {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  bool a_transposed = false;
  bool b_transposed = false;
  bool accumulate = false;
  bool bias = false;
  Number operands = Number::fp32;
  Number result = Number::fp32;  ///< of c and of the bias: fp32 or the operands' own
  auto operator<=>(const MatmulSpec&) const = default;
};

/// What becomes of fp32 operands: `tf32` rounds them to 10 bits of fraction on their way into tensor cores.
enum class Fp32Products { exact, tf32 };

/// Products, each planned once. Sizes are at least 1. Leading dimensions times the number's size should be
/// multiples of 16 bytes: other ones are correct and slow. A bias must be aligned to 16 bytes.
class Matmuls {
 public:
  /// `deterministic`: no algorithm whose sums depend on timing, the same one in every run. Else planning a
  /// large product waits for the queue.
  Matmuls(Gpu& gpu, bool deterministic, Fp32Products fp32 = Fp32Products::exact);
  ~Matmuls();
  void run(Queue& queue, const MatmulSpec& spec, const void* a, const void* b, void* c,
           const void* bias = nullptr);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Whole-array primitives with their scratch memory. What is captured must have run before: it then has room.
class Primitives {
 public:
  explicit Primitives(Gpu& gpu);
  ~Primitives();
  /// out[0] = 0, out[i + 1] = in[0] + .. + in[i]; in (n), out (n + 1).
  void running_sum(Queue& queue, const std::int32_t* in, std::int64_t n, std::int64_t* out);
  /// Stable, by the lowest `bits` bits of the keys (1 to 32), ascending.
  void sort_pairs(Queue& queue, const std::uint32_t* keys, std::uint32_t* sorted_keys,
                  const std::uint32_t* values, std::uint32_t* sorted_values, std::int64_t n, int bits);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vaecf::cuda
