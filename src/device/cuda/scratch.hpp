#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cuda/allocation.hpp"
#include "device/cuda/platform/gpu.hpp"
#include "device/cuda/platform/memory.hpp"

namespace vaecf::cuda {

/// Temporary device memory of operations, kept between calls; one slot per purpose.
class Scratch {
 public:
  static constexpr int max_column_sums = 4;  ///< sums of columns that may be open at the same time
  enum Slot {
    logits,
    hidden,
    segments,
    products,
    per_user,
    per_entry,
    ranks,
    flags,
    sums,
    halves,
    operand_halves,
    gathered,
    sums_of_all,
    exchanged,
    used_items,
    column_sums,
    slots = column_sums + max_column_sums
  };
  Scratch(Gpu& gpu, AllocationEpoch& allocation_epoch) : gpu_(gpu), allocation_epoch_(allocation_epoch) {}
  /// Returns at least `bytes`, not zeroed. Growth invalidates graphs. Throws std::logic_error during a
  /// capture.
  void* bytes(Slot slot, std::int64_t bytes, const char* what);
  template <class T>
  T* get(Slot slot, std::int64_t size, const char* what) {
    return static_cast<T*>(bytes(slot, size * static_cast<std::int64_t>(sizeof(T)), what));
  }

 private:
  Gpu& gpu_;
  AllocationEpoch& allocation_epoch_;
  DeviceArray<std::byte> memory_[slots];
};

}  // namespace vaecf::cuda
