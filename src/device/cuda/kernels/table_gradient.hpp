#pragma once

#include <vaecf/base/host_device.hpp>
#include <vaecf/math/elementwise.hpp>
#include <vaecf/math/philox.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "device/cuda/kernels/row_sums.hpp"
#include "device/cuda/kernels/update_kernels.hpp"
#include "device/cuda/platform/launch.hpp"
#include "device/cuda/storage.hpp"

/// The gradient of a table whose rows users have summed, and its update.
namespace vaecf::cuda {

/// The weights of users' rows in the sums, and the dropout of one step. Its masks are not stored: forward and
/// backward pass compute the same Philox values. Items are counted in all item slices, so that a mask does
/// not depend on their number.
struct UserScales {
  RowSizes sizes;
  bool normalized;
  const std::uint32_t* user_numbers;
  float keep_prob;
  const DeviceStepState* state = nullptr;
  std::uint64_t threshold = 0;
  bool drops_items = false;
  std::uint64_t history_threshold = 0;
  bool drops_histories = false;
  std::uint32_t first_item = 0;  // of the item slice
  std::uint32_t item_step = 1;

  VAECF_HD bool keeps(std::int64_t user, std::uint32_t local_item) const {
    return !drops_items ||
           math::dropout_keeps_item(state->params.seed, state->params.step, user_numbers[user],
                                    first_item + item_step * local_item, threshold);
  }
  VAECF_HD bool keeps_history(std::int64_t user) const {
    return !drops_histories || math::dropout_keeps_history(state->params.seed, state->params.step,
                                                           user_numbers[user], history_threshold);
  }
  /// Returns the weight of a user with items whose history is kept.
  VAECF_HD float of_kept(std::int64_t user) const {
    return math::input_scale(sizes(user), normalized) / keep_prob;
  }
};

/// Computes the parts: those of item i are [begin[i], begin[i + 1]); empty if one block sums the item.
struct CountParts {
  const std::int64_t* item_begin;
  std::int64_t users_of_part;
  std::int32_t* parts;

  VAECF_HD void operator()(std::int64_t item) const {
    const std::int64_t n = item_begin[item + 1] - item_begin[item];
    parts[item] = n > users_of_part ? static_cast<std::int32_t>((n + users_of_part - 1) / users_of_part) : 0;
  }
};

/// Computes the sum of s_ui d_u over users [begin, end) of the transpose, all of one item. Unfinished sums
/// are stored in `sums` (stride). Calls `done(to, sum)` for eight elements at a time, whose place there is
/// `to`.
template <class T>
struct SumUsers {
  const std::uint32_t* item_users;
  UserScales scale;
  const T* d;  // (users, stride)
  std::int64_t stride;

  template <int threads, class ThreadGroup, class Done>
  VAECF_HD void sum(ThreadGroup& thread_group, std::byte* scratch, std::int64_t item, std::int64_t begin,
                    std::int64_t end, float* sums, const Done& done) const {
    sum_rows(
        thread_group, *reinterpret_cast<CompactedRows<threads>*>(scratch), end - begin, d, stride, sums,
        false,
        [&](std::int64_t k) { return scale.keeps(item_users[begin + k], static_cast<std::uint32_t>(item)); },
        [&](std::int64_t k) {
          const std::uint32_t user = item_users[begin + k];
          const float weight = scale.keeps_history(user) ? scale.of_kept(user) : 0.0F;
          return WeightedRow{static_cast<std::int32_t>(user), weight};
        },
        [&](std::int64_t column, const Vec8& sum) { done(sums + column, sum); });
  }
};

struct StoreSums {
  VAECF_HD void operator()(float* to, const Vec8& sum) const { store_vec8(to, sum); }
};

template <class T, int THREADS>
struct SumPart {
  static constexpr int threads = THREADS;
  // Without the bound, the compiler uses more registers in the narrow 16-bit versions, and spills.
  static constexpr int blocks_at_once = std::is_same_v<T, float> || THREADS != narrow_threads ? 0 : 12;
  static constexpr int scratch_bytes = sizeof(CompactedRows<threads>);
  SumUsers<T> users;
  const std::int64_t* item_begin;
  const std::int64_t* part_begin;  // (items + 1)
  std::int64_t items;
  std::int64_t users_of_part;
  float* partial;  // (parts, stride)

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t part, std::byte* scratch) const {
    if (part >= part_begin[items]) return;
    // The last item whose parts begin at or before this one.
    const std::int64_t item =
        partition_point(1, items, [&](std::int64_t i) { return part_begin[i] <= part; }) - 1;
    const std::int64_t begin = item_begin[item] + (part - part_begin[item]) * users_of_part;
    const std::int64_t end = item_begin[item + 1];
    users.template sum<threads>(thread_group, scratch, item, begin,
                                begin + users_of_part < end ? begin + users_of_part : end,
                                partial + part * users.stride, StoreSums());
  }
};

/// Updates the weights by eight elements of the gradient, which are not stored. T is the type of the weights'
/// copies.
template <class T>
struct UpdateTable {
  WeightUpdate<T> update;
  const float* gradients;  // the flat buffer
  bool decays;
  VAECF_HD void operator()(const float* to, const Vec8& sum) const {
    update.eight(update.rule(decays), sum, to - gradients);
  }
};

/// One item per block; its gradient is zero if it has no users. Done: StoreSums or UpdateTable.
template <class T, class Done>
struct SumItem {
  static constexpr int threads = narrow_threads;  // most items have few users
  // Without the bound, the compiler uses fewer registers in some versions that update, and spills.
  static constexpr int blocks_at_once = std::is_same_v<Done, StoreSums> ? 0 : 8;
  static constexpr int scratch_bytes = sizeof(CompactedRows<threads>);
  SumUsers<T> users;
  const std::int64_t* item_begin;
  const std::int64_t* part_begin;  // null: no item has parts
  const float* partial;
  std::int64_t first;  // item of block 0
  float* gradient;     // (items, stride)
  Done done;

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t block, std::byte* scratch) const {
    const std::int64_t item = first + block;
    float* sums = gradient + item * users.stride;
    const std::int64_t part = part_begin != nullptr ? part_begin[item] : 0;
    const std::int64_t end = part_begin != nullptr ? part_begin[item + 1] : 0;
    if (part == end) {
      users.template sum<threads>(thread_group, scratch, item, item_begin[item], item_begin[item + 1], sums,
                                  done);
      return;
    }
    thread_group.each(users.stride / 8, [&](std::int64_t eight) {
      Vec8 sum{};
      for (std::int64_t p = part; p < end; ++p) {
        const Vec8 more = load_vec8(partial + p * users.stride + 8 * eight);
        for (int c = 0; c < 8; ++c) sum.at[c] += more.at[c];
      }
      done(sums + 8 * eight, sum);
    });
  }
};

}  // namespace vaecf::cuda
