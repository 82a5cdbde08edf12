#pragma once

#include <cstdint>

#include "device/cuda/platform/gpu.hpp"
#include "device/cuda/platform/memory.hpp"

namespace vaecf::cuda {

/// Counts reallocations. A graph captured before the last one must not run again.
struct AllocationEpoch {
  std::uint64_t value = 0;
  bool capturing = false;
  /// Throws std::logic_error during a capture, when nothing may be reallocated.
  void require_not_capturing(const char* what) const;
};

/// Makes `array` at least `size` elements long; the contents are lost if it grows. Frees the old memory
/// first, to limit peak memory.
template <class T>
void grow(Gpu& gpu, AllocationEpoch& allocation_epoch, std::int64_t size, const char* what,
          DeviceArray<T>& array) {
  if (array.size() >= size) return;
  allocation_epoch.require_not_capturing(what);
  array = DeviceArray<T>();
  array = DeviceArray<T>(gpu, size, what);
  ++allocation_epoch.value;
}

}  // namespace vaecf::cuda
