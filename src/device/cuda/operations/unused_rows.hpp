#pragma once

#include <vaecf/base/host_device.hpp>

#include <cstdint>

#include "device/cuda/operations/input_layer.hpp"
#include "device/cuda/operations/update.hpp"
#include "device/cuda/operations/vec8.hpp"

/// Kernels of update_unused_rows().
namespace vaecf::cuda {

/// One item per block: finds whether any user of the batch keeps the item. If none does, its gradient is
/// zero, and no operation of this step reads its row, which is updated. T is the type of the weights' copies.
template <class T>
struct UpdateUnused {
  static constexpr int threads = narrow_threads;
  UserScales scale;
  const std::uint32_t* item_users;
  const std::int64_t* item_begin;
  std::uint8_t* used;  // (items)
  std::int64_t stride;
  const float* gradient;  // (items, stride), not read: the place of the rows
  UpdateTable<T> update;

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t item) const {
    const std::int64_t end = item_begin[item + 1];
    bool keeps = false;
    for (std::int64_t first = item_begin[item]; first < end && !keeps; first += threads) {
      const std::int64_t n = end - first < threads ? end - first : threads;
      keeps = thread_group.max(n, [&](std::int64_t k) {
        const std::uint32_t user = item_users[first + k];
        const bool kept = scale.keeps(user, static_cast<std::uint32_t>(item)) && scale.keeps_history(user);
        return kept ? 1.0F : 0.0F;
      }) > 0.0F;
    }
    thread_group.each(1, [&](std::int64_t) { used[item] = keeps ? 1 : 0; });
    if (keeps) return;
    thread_group.each(stride / 8,
                      [&](std::int64_t eight) { update(gradient + item * stride + 8 * eight, Vec8{}); });
  }
};

}  // namespace vaecf::cuda
