#include <vaecf/device/cuda/platform.hpp>

#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "device/cuda/platform/check.cuh"

namespace vaecf::cuda {
namespace {

struct Widen {
  __host__ __device__ std::int64_t operator()(std::int32_t value) const { return value; }
};

// The scan accumulates in its input's type, so the input is converted to 64 bits to avoid overflow at 2^31.
cudaError_t scan(void* scratch, std::size_t& bytes, const std::int32_t* in, std::int64_t* out, std::int64_t n,
                 cudaStream_t stream) {
  return cub::DeviceScan::InclusiveSum(scratch, bytes, thrust::make_transform_iterator(in, Widen{}), out, n,
                                       stream);
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
  stream.memset_zero(out, sizeof *out);
  if (n == 0) return;
  const auto native = static_cast<cudaStream_t>(stream.native());
  std::size_t bytes = 0;
  check(scan(nullptr, bytes, in, out + 1, n, native), "planning a scan");
  check(scan(state_->take(stream, bytes), bytes, in, out + 1, n, native), "a scan");
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
