#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

/// All functions that the CUDA device needs from a GPU: memory, streams, events, graphs, products, scan and
/// sort. src/device/cuda/platform/launch.hpp launches kernels. There are two implementations. platform.cpp,
/// products.cpp and primitives.cu call the CUDA runtime, cuBLASLt, cuSPARSE and CUB. The
/// host emulation in tests/support/cuda_emulator keeps "device memory" on the host, runs each block of a
/// kernel on EmulatedThreadGroup and multiplies with plain loops. So all kernels and all logic above this
/// layer are tested on machines without a GPU.
namespace vaecf::cuda {

/// One GPU. Allocations are zeroed, aligned to 256 bytes, and counted.
class Gpu {
 public:
  /// Makes GPU `index` the current device of the calling thread, the only thread that may use this object
  /// except for make_current(). Throws RunError if the GPU cannot be used.
  explicit Gpu(int index);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  void make_current() const;
  int index() const;
  std::string name() const;  ///< "NVIDIA H100 80GB HBM3"
  std::string id() const;    ///< "GPU-01234567-..."
  std::int64_t free_bytes() const;
  std::int64_t total_bytes() const;
  std::int64_t peak_bytes() const;  ///< peak allocation through this object

  /// Allocates zeroed memory. On failure throws RunError with `what`, the required and the free memory, and
  /// the setting that reduces the requirement.
  void* allocate(std::int64_t bytes, const char* what);
  /// Releases memory of allocate(), given its size.
  void release(void* memory, std::int64_t bytes) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

enum class Timing { off, on };

class Event {
 public:
  /// Timing::on is required for seconds_between().
  explicit Event(Timing timing = Timing::off);
  /// Returns whether the work before this point is done; true if nothing was recorded. Throws RunError if the
  /// device failed.
  bool done() const;
  void* native() const;  ///< cudaEvent_t
  /// Returns the device time between two timed events, which must be done.
  static double seconds_between(const Event& from, const Event& to);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Operations captured from a stream, which can be run repeatedly.
class CapturedGraph {
 public:
  struct State;
  explicit CapturedGraph(std::shared_ptr<State> state) : state_(std::move(state)) {}
  State& state() const { return *state_; }

 private:
  std::shared_ptr<State> state_;
};

/// Kernels of a stream with raised priority start before those of other streams; only communication has a
/// higher one.
enum class StreamPriority { normal, raised };

/// A CUDA stream: executes operations in order. Only `synchronize`, and copies of pageable host memory, block
/// the host.
class Stream {
 public:
  explicit Stream(StreamPriority priority = StreamPriority::normal);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void copy_h2d(void* device, const void* host, std::int64_t bytes);  ///< asynchronous if `host` is pinned
  void copy_d2h(void* host, const void* device, std::int64_t bytes);  ///< asynchronous if `host` is pinned
  void copy(void* to, const void* from, std::int64_t bytes);          ///< within device memory
  void memset_zero(void* device, std::int64_t bytes);
  /// Moves `event` to the current end of the stream.
  void record(Event& event);
  /// Makes later operations wait for `event`, a native event of any stream; null: does nothing.
  void wait_event(void* event);
  /// Blocks until all operations are done. Throws RunError if the device failed.
  void synchronize();

  /// Operations on this stream, and on streams that wait for it, are captured instead of run until
  /// end_capture(). Other threads can use their own streams and events in the meantime (capture mode: thread
  /// local).
  void begin_capture();
  /// Ends the capture and returns the graph. Throws if this stream does not wait for all captured work of
  /// other streams.
  CapturedGraph end_capture();
  void run(const CapturedGraph& graph);
  bool capturing() const;

  void* native() const;  ///< cudaStream_t

  struct State;
  State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

/// Pinned host memory: the device copies from it at full speed, overlapping with compute, and kernels can
/// read it through the same pointer.
void* allocate_pinned(std::int64_t bytes);
void release_pinned(void* memory) noexcept;

/// Zero-initialized device memory.
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

/// Pinned host memory, not initialized.
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

/// Element type.
enum class DType { fp32, bf16, fp16 };
inline std::int64_t size_of(DType dtype) {
  return dtype == DType::fp32 ? 4 : 2;
}

/// A matrix product c (m, n) = a (m, k) b (k, n). Adds the previous contents of c if `accumulate` is set, or
/// `bias` (n) to every row if one is given. Row-major with leading dimensions, by default without padding; a
/// transposed operand is stored as (k, m) or (n, k). Sums are fp32; a 16-bit result may be rounded both
/// before and after c or a bias is added.
struct MatmulSpec {
  std::int64_t m = 0, n = 0, k = 0;
  bool a_transposed = false;
  bool b_transposed = false;
  std::int64_t lda = a_transposed ? m : k;
  std::int64_t ldb = b_transposed ? k : n;
  std::int64_t ldc = n;
  bool accumulate = false;
  bool bias = false;
  DType operands = DType::fp32;
  DType result = DType::fp32;  ///< type of c and bias: fp32 or equal to `operands`
  auto operator<=>(const MatmulSpec&) const = default;
};

/// Treatment of fp32 operands; `tf32` rounds them to 10 fraction bits for the tensor cores.
enum class Fp32Products { exact, tf32 };

/// Matrix products; each shape is planned once. Sizes must be at least 1. Leading dimensions in bytes should
/// be multiples of 16; others are correct but slow. A bias must be aligned to 16 bytes.
class Matmuls {
 public:
  /// `deterministic`: uses only algorithms whose sums do not depend on timing, the same ones in every run.
  /// Otherwise, planning a large product blocks until the stream is idle.
  Matmuls(Gpu& gpu, bool deterministic, Fp32Products fp32 = Fp32Products::exact);
  ~Matmuls();
  /// Queues a product; `bias` must be set if spec.bias is.
  void run(Stream& stream, const MatmulSpec& spec, const void* a, const void* b, void* c,
           const void* bias = nullptr);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A sparse fp32 matrix (rows, columns) in compressed row form, in device memory.
struct SparseRows {
  const std::int32_t* offsets = nullptr;  ///< (rows + 1), starting at 0
  const std::int32_t* indices = nullptr;  ///< (entries) columns, ascending in each row
  const float* values = nullptr;          ///< (entries)
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t entries = 0;
};

/// Products of a sparse and a dense matrix.
class SparseProducts {
 public:
  /// `deterministic`: uses only an algorithm whose sums do not depend on timing.
  SparseProducts(Gpu& gpu, bool deterministic);
  ~SparseProducts();
  /// Queues c (a.rows, n) = a b for the row-major matrices b (a.columns, n) and c with `ldb` and `ldc`
  /// elements between rows. All sizes must be at least 1. Not during a capture, since it may allocate memory.
  void run(Stream& stream, const SparseRows& a, const float* b, std::int64_t ldb, std::int64_t n, float* c,
           std::int64_t ldc);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Whole-array primitives with their scratch memory. Operations to be captured must have run before with the
/// same sizes, so that no memory is allocated during capture.
class Primitives {
 public:
  explicit Primitives(Gpu& gpu);
  ~Primitives();
  /// Writes the exclusive prefix sum with total: out[0] = 0, out[i + 1] = in[0] + .. + in[i]; in (n), out (n
  /// + 1).
  void exclusive_scan(Stream& stream, const std::int32_t* in, std::int64_t n, std::int64_t* out);
  /// Sorts pairs by the lowest `bits` bits of the keys (1 to 32), ascending and stable.
  void sort_pairs(Stream& stream, const std::uint32_t* keys, std::uint32_t* sorted_keys,
                  const std::uint32_t* values, std::uint32_t* sorted_values, std::int64_t n, int bits);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vaecf::cuda
