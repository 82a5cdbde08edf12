#pragma once

#include <vaecf/base/host_device.hpp>

#include <cstdint>

#include "device/cuda/operations/input_layer.hpp"
#include "device/cuda/operations/update.hpp"
#include "device/cuda/operations/vec8.hpp"

/// Kernels of update_unused_rows().
namespace vaecf::cuda {

/// Marks the items that a user of the batch keeps, one user per block: sparse_linear() reads their rows.
struct MarkUsed {
  static constexpr int threads = 64;
  UserScales scale;
  const std::int64_t* offsets;
  const std::int32_t* columns;
  std::uint8_t* used;  // (items), initially 0

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t user) const {
    if (!scale.keeps_history(user)) return;
    const std::int64_t begin = offsets[user];
    thread_group.each(offsets[user + 1] - begin, [&](std::int64_t k) {
      const auto item = static_cast<std::uint32_t>(columns[begin + k]);
      if (scale.keeps(user, item)) used[item] = 1;
    });
  }
};

/// Updates the rows of the other items, whose gradient is zero, one per block: small blocks, which soon make
/// room for the kernels of the stream, whose priority is higher. T is the type of the weights' copies.
template <class T>
struct UpdateUnused {
  static constexpr int threads = narrow_threads;
  const std::uint8_t* used;  // (items)
  std::int64_t stride;
  const float* gradient;  // (items, stride), not read: the place of the rows
  UpdateTable<T> update;

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t item) const {
    if (used[item] != 0) return;
    thread_group.each(stride / 8,
                      [&](std::int64_t eight) { update(gradient + item * stride + 8 * eight, Vec8{}); });
  }
};

}  // namespace vaecf::cuda
