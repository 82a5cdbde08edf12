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

/// The picks of one pass in shared memory. Each thread tests `share` candidates; the selected ones are
/// compacted, so that the long loop over rows has no gaps.
template <int threads>
struct CompactedRows {
  static constexpr int share = 8;
  static constexpr int size = threads * share;

  WeightedRow picks[size];
  std::int32_t count[threads];   // number of selected candidates of each thread
  std::uint32_t stays[threads];  // bit mask of the selected candidates
  std::int32_t total;
};

/// Computes sum += picks[k].weight * columns [column, column + 8) of row picks[k].row, in the order of k.
template <class T>
VAECF_HD inline void add_rows(const T* table, std::int64_t stride, std::int64_t column,
                              const WeightedRow* picks, std::int32_t n, Vec8& sum) {
  constexpr int at_once = 4;  // concurrent loads
  std::int32_t k = 0;
  for (; k + at_once <= n; k += at_once) {
    Vec8 rows[at_once];
    for (int j = 0; j < at_once; ++j) rows[j] = load_vec8(table + picks[k + j].row * stride + column);
    for (int j = 0; j < at_once; ++j) {
      for (int c = 0; c < 8; ++c) sum.at[c] += picks[k + j].weight * rows[j].at[c];
    }
  }
  for (; k < n; ++k) {
    const Vec8 row = load_vec8(table + picks[k].row * stride + column);
    for (int c = 0; c < 8; ++c) sum.at[c] += picks[k].weight * row.at[c];
  }
}

/// Sums the rows of `table` that are selected from `n` candidates: `stays(k)` returns whether candidate k is
/// selected, `pick(k)` its row and weight. Calls `done(column, sum)` for eight columns at a time. Works in
/// passes of CompactedRows::size candidates, and `unfinished` (stride) stores the sums between passes. With
/// `adds`, the sums start from the contents of `unfinished`. The order of additions is fixed.
template <int threads, class T, class Group, class Stays, class RowOf, class Done>
VAECF_HD void sum_rows(Group& group, CompactedRows<threads>& shared, std::int64_t n, const T* table,
                       std::int64_t stride, float* unfinished, bool adds, Stays&& stays, RowOf&& pick,
                       Done&& done) {
  std::int64_t first = 0;
  do {
    const std::int64_t left = n - first;
    const std::int64_t candidates = left < shared.size ? left : shared.size;
    const std::int64_t share = (candidates + threads - 1) / threads;
    const std::int64_t sharing = share > 0 ? (candidates + share - 1) / share : 0;
    group.each(sharing, [&](std::int64_t thread) {
      std::uint32_t bits = 0;
      std::int32_t count = 0;
      for (std::int64_t j = 0; j < share && thread * share + j < candidates; ++j) {
        if (!stays(first + thread * share + j)) continue;
        bits |= 1U << j;
        ++count;
      }
      shared.stays[thread] = bits;
      shared.count[thread] = count;
    });
    group.each(sharing, [&](std::int64_t thread) {
      std::int32_t at = 0;
      for (std::int64_t other = 0; other < thread; ++other) at += shared.count[other];
      for (std::int64_t j = 0; j < share; ++j) {
        if ((shared.stays[thread] >> j & 1U) != 0) shared.picks[at++] = pick(first + thread * share + j);
      }
      if (thread == sharing - 1) shared.total = at;
    });
    const std::int32_t picked = sharing > 0 ? shared.total : 0;
    const bool begins = first == 0 && !adds;
    first += candidates;
    const bool ends = first >= n;
    group.each(stride / 8, [&](std::int64_t eight) {
      Vec8 sum{};
      if (!begins) sum = load_vec8(unfinished + 8 * eight);
      add_rows(table, stride, 8 * eight, shared.picks, picked, sum);
      if (ends) {
        done(8 * eight, sum);
      } else {
        store_vec8(unfinished + 8 * eight, sum);
      }
    });
  } while (first < n);
}

}  // namespace vaecf::cuda
