#pragma once

#include <cstdint>
#include <memory>

#include "device/cuda/platform/gpu.hpp"
#include "device/cuda/platform/stream.hpp"

namespace vaecf::cuda {

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
