#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "device/cuda/platform/check.cuh"
#include "device/cuda/platform/gpu.hpp"
#include "device/cuda/platform/memory.hpp"
#include "device/cuda/platform/primitives.hpp"
#include "device/cuda/platform/stream.hpp"

namespace vaecf::cuda {
namespace {

/// The first n of n + 1 counts, which an exclusive scan reads. The scan accumulates in its input's type, so
/// the input is converted to 64 bits to avoid overflow at 2^31.
struct WidenFirst {
  const std::int32_t* counts;
  std::int64_t n;
  __host__ __device__ std::int64_t operator()(std::int64_t i) const { return i < n ? counts[i] : 0; }
};

/// Writes out[0..n], so that out[0] needs no memset.
cudaError_t scan(void* scratch, std::size_t& bytes, const std::int32_t* in, std::int64_t* out, std::int64_t n,
                 cudaStream_t stream) {
  const auto counts =
      thrust::make_transform_iterator(thrust::make_counting_iterator(std::int64_t{0}), WidenFirst{in, n});
  return cub::DeviceScan::ExclusiveSum(scratch, bytes, counts, out, n + 1, stream);
}

cudaError_t sort(void* scratch, std::size_t& bytes, const std::uint32_t* keys, std::uint32_t* sorted_keys,
                 const std::uint32_t* values, std::uint32_t* sorted_values, std::int64_t n, int bits,
                 cudaStream_t stream) {
  return cub::DeviceRadixSort::SortPairs(scratch, bytes, keys, sorted_keys, values, sorted_values, n, 0, bits,
                                         stream);
}

}  // namespace

struct Primitives::State {
  explicit State(Gpu& owner) : gpu(owner) {}

  /// Returns scratch memory of at least `bytes`. Outgrown blocks are kept, because graphs may refer to them;
  /// doubling limits their total to the size in use.
  void* take(const Stream& stream, std::size_t bytes) {
    const auto size = static_cast<std::int64_t>(bytes);
    const std::int64_t has = scratch.empty() ? 0 : scratch.back().size();
    if (has < size) {
      if (stream.capturing()) throw std::logic_error("a scan or sort must run once before it is captured");
      scratch.emplace_back(gpu, std::max(size, 2 * has), "scratch of scan and sort");
    }
    return scratch.back().data();
  }

  Gpu& gpu;
  std::vector<DeviceArray<std::byte>> scratch;
};

Primitives::Primitives(Gpu& gpu) : state_(std::make_unique<State>(gpu)) {}
Primitives::~Primitives() = default;

void Primitives::exclusive_scan(Stream& stream, const std::int32_t* in, std::int64_t n, std::int64_t* out) {
  const auto native = static_cast<cudaStream_t>(stream.native());
  std::size_t bytes = 0;
  check(scan(nullptr, bytes, in, out, n, native), "planning a scan");
  check(scan(state_->take(stream, bytes), bytes, in, out, n, native), "a scan");
}

void Primitives::sort_pairs(Stream& stream, const std::uint32_t* keys, std::uint32_t* sorted_keys,
                            const std::uint32_t* values, std::uint32_t* sorted_values, std::int64_t n,
                            int bits) {
  if (n == 0) return;
  const auto native = static_cast<cudaStream_t>(stream.native());
  std::size_t bytes = 0;
  check(sort(nullptr, bytes, keys, sorted_keys, values, sorted_values, n, bits, native), "planning a sort");
  check(sort(state_->take(stream, bytes), bytes, keys, sorted_keys, values, sorted_values, n, bits, native),
        "a sort");
}

}  // namespace vaecf::cuda
