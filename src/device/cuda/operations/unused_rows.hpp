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

/// Updates the rows of the other items, whose gradient is zero. T is the type of the weights' copies.
template <class T>
struct UpdateUnused {
  static constexpr int threads = 1024;
  const std::uint8_t* used;  // (items)
  std::int64_t eights;       // of the table
  std::int64_t eights_per_row;
  std::int64_t blocks;
  const float* gradient;  // the table's, not read: the place of its elements
  UpdateTable<T> update;

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t block) const {
    const UpdateRule rule = update.update.rule(update.decays);
    const std::int64_t first = gradient - update.gradients;
    const std::int64_t rounds = (eights + blocks * threads - 1) / (blocks * threads);
    thread_group.each(rounds * threads, [&](std::int64_t i) {
      const std::int64_t eight = (i / threads * blocks + block) * threads + i % threads;
      if (eight < eights && used[eight / eights_per_row] == 0)
        update.update.eight(rule, Vec8{}, first + 8 * eight);
    });
  }
};

}  // namespace vaecf::cuda
