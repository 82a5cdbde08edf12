#pragma once

#include <vaecf/math/loss.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "device/cuda/item_ids.hpp"
#include "device/cuda/operations/row_exponential.hpp"
#include "device/cuda/operations/vec8.hpp"
#include "device/cuda/platform/launch.hpp"
#include "device/cuda/shared_names.hpp"
#include "device/cuda/step_state.hpp"

/// Kernels of the output layer: the loss and its gradient with respect to the logits.
namespace vaecf::cuda {

/// Columns [first, last) of a user's row of logits; `first` is a multiple of 8.
template <class T>
struct RowPart {
  T* row;
  std::int64_t first;
  std::int64_t last;
  std::int64_t user;   // in the batch
  std::int64_t begin;  // first of the user's interactions in the batch
  std::int32_t count;  // number of these

  VAECF_HD std::int64_t vecs() const { return (last - first + 7) / 8; }
  VAECF_HD bool contains(std::int64_t column) const { return first <= column && column < last; }
};

/// The logits of a block of users, which kernels replace by the gradient
///   scale (N_u softmax_i - x_i),   N_u = sum of x,
/// with zeros in the padding. The user's own logits are saved before they are overwritten, so that their
/// gradient, a possibly small difference, is rounded only once.
template <class T>
struct LogitRows {
  T* logits;  // (users, stride) of the block
  std::int64_t stride;
  std::int64_t items;
  std::int64_t first_user;       // first user of the block in the batch
  const std::int64_t* offsets;   // offsets of the batch
  const RowTotals* totals;       // (users of the batch)
  const std::int32_t* columns;   // columns of the batch
  const float* values;           // like `columns`; null: all are 1
  const DeviceStepState* state;  // contains the loss scale
  double* nll;                   // (users of the batch)
  float* positive_logits;        // (entries of the batch)

  VAECF_HD RowPart<T> part(std::int64_t row, std::int64_t first, std::int64_t last) const {
    const std::int64_t user = first_user + row;
    const std::int64_t begin = offsets[user];
    return {logits + row * stride,
            first,
            last < items ? last : items,
            user,
            begin,
            static_cast<std::int32_t>(offsets[user + 1] - begin)};
  }

  /// Sets elements of the padding to -infinity, so that they add nothing to a softmax.
  VAECF_HD Vec8 mask_padding(std::int64_t column, Vec8 x) const {
    if (column + 8 > items) {
      for (int j = 0; j < 8; ++j) {
        if (column + j >= items) x.at[j] = -std::numeric_limits<float>::infinity();
      }
    }
    return x;
  }

  /// Reads a part once; `scratch` has a SoftmaxPart for each thread.
  template <int threads, class ThreadGroup>
  VAECF_HD SoftmaxPart softmax_of(ThreadGroup& thread_group, const RowPart<T>& part,
                                  std::byte* scratch) const {
    auto* sums = reinterpret_cast<SoftmaxPart*>(scratch);
    thread_group.each(threads, [&](std::int64_t thread) {
      SoftmaxPart sum;
      for (std::int64_t at = part.first + 8 * thread; at < part.last; at += 8 * threads) {
        add(mask_padding(at, load_vec8(part.row + at)), sum);
      }
      sums[thread] = sum;
    });
    const float maximum =
        thread_group.max(threads, [&](std::int64_t thread) { return sums[thread].maximum; });
    const float sum =
        thread_group.sum(threads, [&](std::int64_t thread) { return sums[thread].rescaled_sum(maximum); });
    return {maximum, sum};
  }

  VAECF_HD static void add(const Vec8& logits, SoftmaxPart& sum) {
    if constexpr (std::is_same_v<T, float>) {
      sum.add(logits.at);
    } else {
      float top = sum.maximum;
      for (const float logit : logits.at) top = std::fmax(top, logit);
      const RowExponential<T> exponential(top);
      sum.sum *= exponential(sum.maximum);
      for (const float logit : logits.at) sum.sum += exponential(logit);
      sum.maximum = top;
    }
  }

  /// Saves the user's own logits of a part of the row, which is copied at `row`. Returns the sum of x logit.
  template <class ThreadGroup>
  VAECF_HD double save_positives(ThreadGroup& thread_group, const RowPart<T>& part, const T* row) const {
    return thread_group.sum(part.count, [&](std::int64_t k) {
      const std::int64_t column = columns[part.begin + k];
      if (!part.contains(column)) return 0.0;
      const float logit = to_float(row[column]);
      positive_logits[part.begin + k] = logit;
      return static_cast<double>(value_at(values, part.begin + k) * logit);  // in fp64, StagedSoftmax spills
    });
  }

  /// One fp64 logarithm instead of one per thread, because many GPUs are slow in fp64.
  template <class ThreadGroup>
  VAECF_HD void write_nll(ThreadGroup& thread_group, const RowPart<T>& part, const SoftmaxPart& softmax,
                          double own) const {
    thread_group.each(
        1, [&](std::int64_t) { nll[part.user] = math::nll(totals[part.user].part, softmax, own); });
  }

  template <class ThreadGroup, class Sum>
  VAECF_HD void write_gradient(ThreadGroup& thread_group, const RowPart<T>& part, const T* row,
                               const math::SoftmaxPart<Sum>& softmax) const {
    const float scale = state->scale.scale;
    const RowExponential<T> exponential(softmax.maximum,
                                        scale * math::softmax_scale(totals[part.user].sum, softmax));
    thread_group.each(part.vecs(), [&](std::int64_t e) {
      const std::int64_t at = part.first + 8 * e;
      Vec8 x = load_vec8(row + at);
      for (float& value : x.at) value = exponential(value);
      store_vec8(part.row + at, x);
    });
    write_padding(thread_group, part);
    write_positives(thread_group, part,
                    [&](float logit, float value) { return exponential(logit) - scale * value; });
  }

  template <class ThreadGroup>
  VAECF_HD void write_padding(ThreadGroup& thread_group, const RowPart<T>& part) const {
    if (part.last < items) return;
    thread_group.each(stride - items, [&](std::int64_t i) { part.row[items + i] = from_float<T>(0.0F); });
  }

  /// Writes f(logit, value) at the user's seen items.
  template <class ThreadGroup, class F>
  VAECF_HD void write_positives(ThreadGroup& thread_group, const RowPart<T>& part, F&& f) const {
    thread_group.each(part.count, [&](std::int64_t k) {
      const std::int64_t column = columns[part.begin + k];
      if (!part.contains(column)) return;
      const std::int64_t entry = part.begin + k;
      part.row[column] = from_float<T>(f(positive_logits[entry], value_at(values, entry)));
    });
  }
};

/// Copies the hidden units of a block of users and appends a column of ones, whose row of the weight gradient
/// is the gradient of the bias: the work of blocks [users, blocks()) of a kernel with one user per block.
template <class T>
struct AppendOnes {
  static constexpr std::int64_t rows_per_block = 8;
  const T* from;  // (users, stride) with zeros after its columns
  std::int64_t users;
  std::int64_t stride;
  std::int64_t columns;
  T* to;               // null: not needed
  std::int64_t width;  // of its rows, more than `columns`

  std::int64_t blocks() const { return users + (to != nullptr ? blocks_for(users, rows_per_block) : 0); }

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t block) const {
    constexpr int size = 16 / sizeof(T);
    const std::int64_t first_row = (block - users) * rows_per_block;
    const std::int64_t rows = users - first_row < rows_per_block ? users - first_row : rows_per_block;
    const auto per_row = static_cast<std::uint32_t>(width / size);
    thread_group.each(rows * per_row, [&](std::int64_t i) {
      const std::int64_t row = first_row + static_cast<std::uint32_t>(i) / per_row;
      const std::int64_t first = static_cast<std::uint32_t>(i) % per_row * size;
      T* const place = to + row * width + first;
      store_words(place, first < stride ? load_words(from + row * stride + first) : Words128{});
      if (first <= columns && columns < first + size) place[columns - first] = from_float<T>(1.0F);
    });
  }
};

/// One user per block, with a row of at most `row_bytes`. The row is copied to shared memory, so that each
/// logit is read once from device memory.
template <class T, int row_bytes>
struct StagedSoftmax {
  static constexpr int threads = 320;
  static constexpr int scratch_bytes = row_bytes;
  // 227 KiB of shared memory, of which the driver takes 1 KiB per block. Five blocks in fp32 would spill
  // registers.
  static constexpr int blocks_at_once = row_bytes <= 40 * 1024 && !std::is_same_v<T, float> ? 5 : 4;
  LogitRows<T> rows;
  AppendOnes<T> ones;

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t block, std::byte* scratch) const {
    if (block >= ones.users) return ones(thread_group, block);
    const RowPart<T> row = rows.part(block, 0, rows.items);
    T* const staged = reinterpret_cast<T*>(scratch);
    thread_group.stage(staged, row.row, row.vecs() * 8 * sizeof(T));
    thread_group.each(8 * row.vecs() - row.last, [&](std::int64_t i) {
      staged[row.last + i] = from_float<T>(-std::numeric_limits<float>::infinity());
    });
    // NaN do not count here, and make the sum NaN.
    const float maximum =
        thread_group.max(row.vecs(), [&](std::int64_t e) { return max_of(load_packed8(staged + 8 * e)); });
    const RowExponential<T> exponential(maximum);
    const float sum = thread_group.sum(row.vecs(), [&](std::int64_t e) {
      const Vec8 x = load_vec8(staged + 8 * e);
      float part = 0.0F;
      for (const float logit : x.at) part += exponential(logit);
      return part;
    });
    const SoftmaxPart softmax{maximum, sum};
    const double own = rows.save_positives(thread_group, row, staged);
    rows.write_nll(thread_group, row, softmax, own);
    rows.write_gradient(thread_group, row, staged, softmax);
  }
};

/// Softmax of a segment of a user's row, and the sum of the user's own logits in it.
struct SegmentSums {
  SoftmaxPart softmax;
  double own;
};

/// Division of rows into segments of `length` columns, one per block.
template <class T>
struct Segments {
  std::int64_t per_row;
  std::int64_t length;  // a multiple of 8
  SegmentSums* sums;    // (users of the block, per_row)

  VAECF_HD RowPart<T> part(const LogitRows<T>& rows, std::int64_t block) const {
    const std::int64_t first = block % per_row * length;
    return rows.part(block / per_row, first, first + length);
  }
};

/// Rows of any length: the first kernel reads the logits for `segments.sums`.
template <class T>
struct SoftmaxOfSegments {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = threads * sizeof(SoftmaxPart);
  LogitRows<T> rows;
  Segments<T> segments;

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t block, std::byte* scratch) const {
    const RowPart<T> part = segments.part(rows, block);
    const SoftmaxPart softmax = rows.template softmax_of<threads>(thread_group, part, scratch);
    const double own = rows.save_positives(thread_group, part, part.row);
    thread_group.each(1, [&](std::int64_t) { segments.sums[block] = {softmax, own}; });
  }
};

/// Then the sums of segments are merged: writes maximum and sum of each user's row, which other item slices
/// of the items need, and keeps the sum of the user's own logits in `nll`.
template <class T>
struct PairsOfUsers {
  static constexpr int threads = 32;
  LogitRows<T> rows;
  AppendOnes<T> ones;
  Segments<T> segments;
  float* pairs;  // (users of the block, 2)

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t row) const {
    if (row >= ones.users) return ones(thread_group, row);
    const SegmentSums* of_row = segments.sums + row * segments.per_row;
    const float maximum =
        thread_group.max(segments.per_row, [&](std::int64_t s) { return of_row[s].softmax.maximum; });
    const float sum = thread_group.sum(
        segments.per_row, [&](std::int64_t s) { return of_row[s].softmax.rescaled_sum(maximum); });
    const double own = thread_group.sum(segments.per_row, [&](std::int64_t s) { return of_row[s].own; });
    thread_group.each(1, [&](std::int64_t) {
      pairs[2 * row] = maximum;
      pairs[2 * row + 1] = sum;
      rows.nll[rows.first_user + row] = own;
    });
  }
};

/// Finally merges the softmax of all item slices, in their order, reads the logits again and replaces
/// them by their gradients. The loss is that of the user's items in this item slice.
template <class T>
struct GradientOfSegments {
  using Merged = math::SoftmaxPart<double>;
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = sizeof(Merged);
  // Without the bound, the compiler uses fewer registers in fp32, and spills.
  static constexpr int blocks_at_once = std::is_same_v<T, float> ? 5 : 0;
  LogitRows<T> rows;
  Segments<T> segments;
  const float* pairs;  // (item slices, users of the block, 2)
  int item_slices;
  std::int64_t item_slice_stride;  // elements between the pairs of consecutive item slices

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t block, std::byte* scratch) const {
    const RowPart<T> part = segments.part(rows, block);
    const float* of_user = pairs + 2 * (block / segments.per_row);
    auto* shared = reinterpret_cast<Merged*>(scratch);
    thread_group.each(1, [&](std::int64_t) {
      Merged all;
      for (int s = 0; s < item_slices; ++s)
        all.maximum = std::fmax(all.maximum, of_user[s * item_slice_stride]);
      for (int s = 0; s < item_slices; ++s) {
        const float* pair = of_user + s * item_slice_stride;
        all.sum += Merged{pair[0], pair[1]}.rescaled_sum(all.maximum);
      }
      *shared = all;
      if (part.first == 0)
        rows.nll[part.user] = math::nll(rows.totals[part.user].part, all, rows.nll[part.user]);
    });
    rows.write_gradient(thread_group, part, part.row, *shared);
  }
};

/// Replaces the logits by the gradient of the mean squared error, scaled, with zeros in the padding. One user
/// per block.
template <class T>
struct SquaredErrorOfUser {
  static constexpr int threads = 256;
  static constexpr int blocks_at_once =
      6;  // without the bound, the compiler uses fewer registers, and spills
  LogitRows<T> rows;
  AppendOnes<T> ones;
  double item_weight;  // 1 / items

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t block) const {
    if (block >= ones.users) return ones(thread_group, block);
    const RowPart<T> row = rows.part(block, 0, rows.items);
    const float scale = rows.state->scale_of(row.user) * static_cast<float>(item_weight);
    // (o - 1)^2 at the user's seen items is o^2 + (1 - 2 o); the logits are saved before they are
    // overwritten.
    const double own = thread_group.sum(row.count, [&](std::int64_t k) {
      const float logit = to_float(row.row[rows.columns[row.begin + k]]);
      rows.positive_logits[row.begin + k] = logit;
      return static_cast<double>(1.0F - 2.0F * math::sigmoid(logit));
    });
    const double all = thread_group.sum(row.vecs(), [&](std::int64_t e) {
      Vec8 x = rows.mask_padding(8 * e, load_vec8(row.row + 8 * e));
      float sum = 0.0F;
      for (float& value : x.at) {
        const float output = math::sigmoid(value);
        sum += output * output;
        value = scale * math::squared_error_gradient(output, output);
      }
      store_vec8(row.row + 8 * e, x);
      return static_cast<double>(sum);
    });
    thread_group.each(1, [&](std::int64_t) { rows.nll[row.user] = item_weight * (all + own); });
    rows.write_padding(thread_group, row);
    rows.write_positives(thread_group, row, [&](float logit, float) {
      const float output = math::sigmoid(logit);
      return scale * math::squared_error_gradient(output - 1.0F, output);
    });
  }
};

}  // namespace vaecf::cuda
