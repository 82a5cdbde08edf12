#pragma once

#include <vaecf/base/host_device.hpp>
#include <vaecf/math/elementwise.hpp>
#include <vaecf/math/random.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "device/cuda/item_ids.hpp"
#include "device/cuda/operations/update.hpp"
#include "device/cuda/operations/vec8.hpp"
#include "device/cuda/platform/launch.hpp"
#include "device/cuda/step_state.hpp"

/// Weighted sums of table rows, one block per sum: the sparse products of forward and backward pass.
namespace vaecf::cuda {

struct alignas(8) WeightedRow {
  std::int32_t row;
  float weight;
};

/// Threads of a block that sums with one thread group, or with up to four. At a width of 600, 75 threads of a
/// thread group have work.
constexpr int narrow_threads = 96;
constexpr int wide_threads = 320;

/// The selected rows of one pass in shared memory. Each thread tests `share` candidates; the selected ones
/// are compacted, so that the long loop over rows has no gaps. Wide blocks divide the rows of a pass among
/// thread groups.
template <int threads>
struct CompactedRows {
  static constexpr bool narrow = threads == narrow_threads;
  static constexpr int share = 8;
  static constexpr int size = threads * share;
  /// Rows that a thread loads concurrently.
  template <class T>
  static constexpr int at_once = narrow ? 4 : 16 / int{sizeof(T)};

  /// One row of sums per thread group, aligned as 128-bit accesses require: thread groups * (stride / 8) <=
  /// threads.
  alignas(16) float partial[narrow ? 4 : 8 * threads];
  WeightedRow rows[size];
  std::int32_t count[threads];       // number of selected candidates of each thread
  std::int32_t warps[threads / 32];  // number of selected candidates of each 32 threads
  std::uint32_t selected[threads];   // bit mask of the selected candidates
  std::int32_t total;
};

/// Computes sum += selected[k].weight * columns [column, column + 8) of row selected[k].row for k = first,
/// first + step, .., in this order, with `at_once` concurrent loads: in the last round, those without a
/// row repeat the first one with weight 0.
template <int at_once, class T>
VAECF_HD inline void add_rows(const T* table, std::int64_t stride, std::int64_t column,
                              const WeightedRow* selected, std::int32_t first, std::int32_t step,
                              std::int32_t n, Vec8& sum) {
  const auto add = [&](std::int32_t k, bool is_last) {
    // 16-bit rows stay packed until they are used, in half the registers.
    Packed8<T> rows[at_once];
    for (int j = 0; j < at_once; ++j) {
      const std::int32_t at = is_last && k + j * step >= n ? k : k + j * step;
      rows[j] = load_packed8(table + selected[at].row * stride + column);
    }
    for (int j = 0; j < at_once; ++j) {
      const Vec8 row = unpack8(rows[j]);
      const float weight = is_last && k + j * step >= n ? 0.0F : selected[k + j * step].weight;
      for (int c = 0; c < 8; ++c) sum.at[c] += weight * row.at[c];
    }
  };
  std::int32_t k = first;
  for (; k + (at_once - 1) * step < n; k += at_once * step) add(k, false);
  if (k < n) add(k, true);
}

/// The first phase of sum_rows(): selects rows among the `candidates` candidates from `first` on, and returns
/// their number.
template <int threads, class ThreadGroup, class Rows>
VAECF_HD std::int32_t select_rows(ThreadGroup& thread_group, CompactedRows<threads>& pass, const Rows& rows,
                                  std::int64_t first, std::int64_t candidates) {
  const std::int64_t share = (candidates + threads - 1) / threads;
  const std::int64_t sharing = share > 0 ? (candidates + share - 1) / share : 0;
  thread_group.each(sharing, [&](std::int64_t thread) {
    std::uint32_t bits = 0;
    std::int32_t count = 0;
    for (std::int64_t j = 0; j < share && thread * share + j < candidates; ++j) {
      if (!rows.keeps(first + thread * share + j)) continue;
      bits |= 1U << j;
      ++count;
    }
    pass.selected[thread] = bits;
    pass.count[thread] = count;
  });
  if constexpr (!pass.narrow) {
    thread_group.each((sharing + 31) / 32, [&](std::int64_t warp) {
      std::int32_t sum = 0;
      for (std::int64_t k = 32 * warp; k < 32 * warp + 32 && k < sharing; ++k) sum += pass.count[k];
      pass.warps[warp] = sum;
    });
  }
  thread_group.each(sharing, [&](std::int64_t thread) {
    std::int32_t at = 0;
    const std::int64_t before = pass.narrow ? 0 : thread / 32;
    for (std::int64_t warp = 0; warp < before; ++warp) at += pass.warps[warp];
    for (std::int64_t other = 32 * before; other < thread; ++other) at += pass.count[other];
    for (std::int64_t j = 0; j < share; ++j) {
      if ((pass.selected[thread] >> j & 1U) != 0) pass.rows[at++] = rows.row(first + thread * share + j);
    }
    if (thread == sharing - 1) pass.total = at;
  });
  return sharing > 0 ? pass.total : 0;
}

/// A weighted sum of rows of a table, (stride). `sums` stores it between passes; with `adds`, it starts from
/// the contents of `sums`.
template <class T>
struct RowSum {
  const T* table;
  std::int64_t stride;
  float* sums;
  bool adds = false;
};

/// The second phase: if there are more than 32 of the `n` selected rows, all thread groups sum them, each
/// for itself; one thread group has less latency to hide for fewer. Returns the number of thread
/// groups.
template <int threads, class T, class ThreadGroup>
VAECF_HD std::int32_t reduce_rows(ThreadGroup& thread_group, CompactedRows<threads>& pass,
                                  const RowSum<T>& of, std::int32_t n) {
  const std::int64_t eights = of.stride / 8;
  const std::int64_t most = pass.narrow ? 1 : threads / eights < 4 ? threads / eights : 4;
  const auto thread_groups = static_cast<std::int32_t>(n > 32 && most > 1 ? most : 1);
  if (thread_groups == 1) return 1;
  thread_group.each(thread_groups * eights, [&](std::int64_t thread) {
    Vec8 sum{};
    add_rows<pass.template at_once<T>>(of.table, of.stride, thread % eights * 8, pass.rows,
                                       static_cast<std::int32_t>(thread / eights), thread_groups, n, sum);
    store_vec8(pass.partial + 8 * thread, sum, Memory::shared);
  });
  return thread_groups;
}

/// Sums the rows of a table that the candidates [begin, end) of `rows` select: keeps(k) returns whether
/// candidate k is selected, row(k) its row and weight. Calls finish(column, sum) for eight columns at a time.
/// Works in passes of CompactedRows::size candidates, each in three phases: select, reduce, finish, where the
/// sums of thread groups are added in order. The order of additions depends only on the selected
/// candidates, on the number of threads and on the width.
template <int threads, class T, class ThreadGroup, class Rows, class Finish>
VAECF_HD void sum_rows(ThreadGroup& thread_group, CompactedRows<threads>& pass, const Rows& rows,
                       const RowSum<T>& of, const Finish& finish) {
  const std::int64_t eights = of.stride / 8;
  std::int64_t first = rows.begin;
  do {
    const std::int64_t left = rows.end - first;
    const std::int64_t candidates = left < pass.size ? left : pass.size;
    const std::int32_t n = select_rows(thread_group, pass, rows, first, candidates);
    const std::int32_t thread_groups = reduce_rows(thread_group, pass, of, n);
    const bool begins = first == rows.begin && !of.adds;
    first += candidates;
    const bool ends = first >= rows.end;
    thread_group.each(eights, [&](std::int64_t eight) {
      Vec8 sum{};
      if (!begins) sum = load_vec8(of.sums + 8 * eight);
      if (thread_groups == 1)
        add_rows<pass.template at_once<T>>(of.table, of.stride, 8 * eight, pass.rows, 0, 1, n, sum);
      for (std::int32_t g = 0; thread_groups > 1 && g < thread_groups; ++g) {
        add(load_vec8(pass.partial + 8 * (g * eights + eight)), sum);
      }
      if (ends) {
        finish(8 * eight, sum);
      } else {
        store_vec8(of.sums + 8 * eight, sum);
      }
    });
  } while (first < rows.end);
}

/// The factors of users' rows in the sums, and the dropout of one step. Its masks are not stored: forward and
/// backward pass compute the same Philox values. Items are counted in all item slices, so that a mask does
/// not depend on their number.
struct UserScales {
  const RowTotals* totals;
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
  /// Returns the factor of the values of a user with items whose history is kept.
  VAECF_HD float of_kept(std::int64_t user) const {
    return math::input_scale(totals[user].norm, normalized) / keep_prob;
  }
};

/// The items of a user, whose values all have the same factor.
struct ItemsOfUser {
  std::int64_t begin;
  std::int64_t end;
  const std::int32_t* columns;
  const float* values;  // null: all are 1
  const UserScales& scale;
  std::int64_t user;
  float weight;

  VAECF_HD bool keeps(std::int64_t k) const {
    return scale.keeps(user, static_cast<std::uint32_t>(columns[k]));
  }
  VAECF_HD WeightedRow row(std::int64_t k) const { return {columns[k], weight * value_at(values, k)}; }
};

/// The users [begin, end) of the transpose, all of one item.
struct UsersOfItem {
  std::int64_t begin;
  std::int64_t end;
  const std::uint32_t* users;
  const float* values;  // null: all are 1
  const UserScales& scale;
  std::int64_t item;

  VAECF_HD bool keeps(std::int64_t k) const {
    return scale.keeps(users[k], static_cast<std::uint32_t>(item));
  }
  VAECF_HD WeightedRow row(std::int64_t k) const {
    const std::uint32_t user = users[k];
    const float factor = scale.keeps_history(user) ? scale.of_kept(user) : 0.0F;
    return {static_cast<std::int32_t>(user), factor * value_at(values, k)};
  }
};

/// Computes the sum of s_ui d_u over users [begin, end) of the transpose, all of one item. Unfinished sums
/// are stored in `sums` (stride). Calls `done(to, sum)` for eight elements at a time, whose place there is
/// `to`.
template <class T>
struct SumUsers {
  const std::uint32_t* item_users;
  const float* item_values;  // null: all are 1
  UserScales scale;
  const T* d;  // (users, stride)
  std::int64_t stride;

  template <int threads, class ThreadGroup, class Done>
  VAECF_HD void sum(ThreadGroup& thread_group, std::byte* scratch, std::int64_t item, std::int64_t begin,
                    std::int64_t end, float* sums, const Done& done) const {
    sum_rows(thread_group, *reinterpret_cast<CompactedRows<threads>*>(scratch),
             UsersOfItem{begin, end, item_users, item_values, scale, item}, RowSum<T>{d, stride, sums},
             [&](std::int64_t column, const Vec8& sum) { done(sums + column, sum); });
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

struct StoreSums {
  VAECF_HD void operator()(float* to, const Vec8& sum) const { store_vec8(to, sum); }
};

template <class T, int THREADS>
struct SumPart {
  static constexpr int threads = THREADS;
  // Without the bound, the compiler uses more registers in the 16-bit versions. Narrow ones then spill, and
  // three wide blocks instead of four fit on a multiprocessor.
  static constexpr int blocks_at_once = std::is_same_v<T, float> ? 0 : THREADS == narrow_threads ? 12 : 4;
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
  const std::uint8_t* used;  // (items); UpdateUnused updates the others. Null: all are updated here
  std::int64_t first;        // item of block 0
  float* gradient;           // (items, stride)
  Done done;

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t block, std::byte* scratch) const {
    const std::int64_t item = first + block;
    if (used != nullptr && used[item] == 0) return;
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
        add(load_vec8(partial + p * users.stride + 8 * eight), sum);
      }
      done(sums + 8 * eight, sum);
    });
  }
};

}  // namespace vaecf::cuda
