#pragma once

#include <vaecf/base/host_device.hpp>

#include <cstddef>
#include <cstdint>

#include "device/cuda/kernels/vec8.hpp"

/// Weighted sums of table rows, one block per sum: the sparse products of forward and backward pass.
namespace vaecf::cuda {

/// A row of the table and its weight in the sum.
struct alignas(8) WeightedRow {
  std::int32_t row;
  float weight;
};

/// Threads of a block that sums with one thread group, or with up to four. At a width of 600, 75 threads
/// of a model-parallel group have work.
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

  /// One row of sums per thread_group, aligned as 128-bit accesses require: model-parallel thread_groups *
  /// (stride / 8) <= threads.
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

/// Sums the rows of `table` that are selected from `n` candidates: `is_selected(k)` returns whether candidate
/// k is selected, `row_of(k)` its row and weight. Calls `store(column, sum)` for eight columns at a time.
/// Works in passes of CompactedRows::size candidates, and `running_sums` (stride) stores the sums between
/// passes. With `adds`, the sums start from the contents of `running_sums`. If a pass has more than 32 rows,
/// all thread groups sum them and their sums are added in order; one thread group has less latency to hide
/// for fewer. The order of additions depends only on the selected candidates, on the number of threads and on
/// the width.
template <int threads, class T, class ThreadGroup, class IsSelected, class RowOf, class Store>
VAECF_HD void sum_rows(ThreadGroup& thread_group, CompactedRows<threads>& shared, std::int64_t n,
                       const T* table, std::int64_t stride, float* running_sums, bool adds,
                       IsSelected&& is_selected, RowOf&& row_of, Store&& store) {
  constexpr bool narrow = CompactedRows<threads>::narrow;
  constexpr int at_once = narrow ? 4 : 16 / int{sizeof(T)};
  const std::int64_t eights = stride / 8;
  const std::int64_t most = narrow ? 1 : threads / eights < 4 ? threads / eights : 4;
  std::int64_t first = 0;
  do {
    const std::int64_t left = n - first;
    const std::int64_t candidates = left < shared.size ? left : shared.size;
    const std::int64_t share = (candidates + threads - 1) / threads;
    const std::int64_t sharing = share > 0 ? (candidates + share - 1) / share : 0;
    thread_group.each(sharing, [&](std::int64_t thread) {
      std::uint32_t bits = 0;
      std::int32_t count = 0;
      for (std::int64_t j = 0; j < share && thread * share + j < candidates; ++j) {
        if (!is_selected(first + thread * share + j)) continue;
        bits |= 1U << j;
        ++count;
      }
      shared.selected[thread] = bits;
      shared.count[thread] = count;
    });
    if constexpr (!narrow) {
      thread_group.each((sharing + 31) / 32, [&](std::int64_t warp) {
        std::int32_t sum = 0;
        for (std::int64_t k = 32 * warp; k < 32 * warp + 32 && k < sharing; ++k) sum += shared.count[k];
        shared.warps[warp] = sum;
      });
    }
    thread_group.each(sharing, [&](std::int64_t thread) {
      std::int32_t at = 0;
      const std::int64_t before = narrow ? 0 : thread / 32;
      for (std::int64_t warp = 0; warp < before; ++warp) at += shared.warps[warp];
      for (std::int64_t other = 32 * before; other < thread; ++other) at += shared.count[other];
      for (std::int64_t j = 0; j < share; ++j) {
        if ((shared.selected[thread] >> j & 1U) != 0) shared.rows[at++] = row_of(first + thread * share + j);
      }
      if (thread == sharing - 1) shared.total = at;
    });
    const std::int32_t rows = sharing > 0 ? shared.total : 0;
    const bool begins = first == 0 && !adds;
    first += candidates;
    const bool ends = first >= n;
    const auto thread_groups = static_cast<std::int32_t>(rows > 32 && most > 1 ? most : 1);
    if (thread_groups > 1) {
      thread_group.each(thread_groups * eights, [&](std::int64_t thread) {
        const std::int64_t column = thread % eights * 8;
        Vec8 sum{};
        add_rows<at_once>(table, stride, column, shared.rows, static_cast<std::int32_t>(thread / eights),
                          thread_groups, rows, sum);
        store_vec8(shared.partial + 8 * thread, sum, Memory::shared);
      });
    }
    thread_group.each(eights, [&](std::int64_t eight) {
      Vec8 sum{};
      if (!begins) sum = load_vec8(running_sums + 8 * eight);
      if (thread_groups == 1) add_rows<at_once>(table, stride, 8 * eight, shared.rows, 0, 1, rows, sum);
      for (std::int32_t g = 0; thread_groups > 1 && g < thread_groups; ++g) {
        const Vec8 more = load_vec8(shared.partial + 8 * (g * eights + eight));
        for (int c = 0; c < 8; ++c) sum.at[c] += more.at[c];
      }
      if (ends) {
        store(8 * eight, sum);
      } else {
        store_vec8(running_sums + 8 * eight, sum);
      }
    });
  } while (first < n);
}

}  // namespace vaecf::cuda
