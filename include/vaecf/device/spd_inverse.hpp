#pragma once

#include <vaecf/base/aligned_array.hpp>
#include <vaecf/base/views.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace vaecf::device {

/// The outcome of an inversion, equal on all ranks: done, not positive definite, or stopped on request.
enum class Inversion { done, indefinite, stopped };

/// Inverts a symmetric positive definite matrix (n, n) whose rows are distributed over ranks in contiguous
/// blocks, in fp32 with fp64 pivot blocks, by block Gauss-Jordan sweeps (Goodnight, "A Tutorial on the SWEEP
/// Operator", 1979), which keep the matrix symmetric. So half of its blocks are updated: of each row of
/// blocks, the half from the diagonal on, continued at the first column, which is the same work for each row.
/// The result does not depend on the number of ranks or threads, because all products have the same shapes.
/// About n^3 operations and 4 n^2 bytes, divided by the ranks.
class SpdInverse {
 public:
  /// Rows per block; a rank owns complete blocks.
  static constexpr std::int64_t block = 256;

  /// Allocates the rows of rank `rank` of `ranks`, filled with 0, and the padding behind row and column n,
  /// with an identity matrix. Works with `threads` threads.
  SpdInverse(std::int64_t n, int rank, int ranks, int threads);

  /// Returns the rows of the matrix that rank `rank` owns.
  Range rows_of(int rank) const {
    const Range blocks = blocks_of(rank);
    return {std::min(n_, blocks.begin * block), std::min(n_, blocks.end * block)};
  }
  /// Returns the number of elements between two rows; those from n on are padding.
  std::int64_t stride() const { return stride_; }
  /// Returns row `i` of this rank, n elements. The row is the input before invert() and the inverse after it.
  std::span<float> row(std::int64_t i) {
    return {rows_.data() + (i - own_.begin * block) * stride_, static_cast<std::size_t>(n_)};
  }

  /// Returns the blocks of rows that rank `rank` owns.
  Range blocks_of(int rank) const {
    const std::int64_t blocks = stride_ / block;
    return {blocks * rank / ranks_, blocks * (rank + 1) / ranks_};
  }
  /// Returns the rank that owns block `k`.
  int owner_of(std::int64_t k) const {
    int rank = 0;
    while (k >= blocks_of(rank).end) ++rank;
    return rank;
  }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  int threads() const { return threads_; }
  /// Returns the columns that invert() reads of row `i`, in two ranges, the second of which is left of the
  /// first and may be empty. By symmetry the others are read elsewhere. On a GPU, all columns are read.
  std::array<Range, 2> columns_read(std::int64_t i) const;
  /// Returns all elements of this rank's blocks, (blocks * block, stride) with an identity matrix as padding.
  std::span<float> elements() { return {rows_.data(), static_cast<std::size_t>(rows_.size())}; }

  /// Sends `values` of rank `root` to all ranks.
  using Broadcast = std::function<void(std::span<float> values, int root)>;
  /// Receives the number of processed blocks and that of all blocks. Returns whether to continue, equal on
  /// all ranks.
  using Progress = std::function<bool(std::int64_t done, std::int64_t total)>;
  /// Inverts the matrix in place on the CPU. Reads of each row only the columns columns_read(). Collective.
  /// `broadcast` is called for parts of each row of blocks; it may be empty for one rank. `progress` is
  /// called after each block. Unless the inversion is done, the rows are undefined.
  [[nodiscard]] Inversion invert(const Broadcast& broadcast, const Progress& progress);

 private:
  bool owns(std::int64_t k) const { return k >= own_.begin && k < own_.end; }
  /// Returns the elements of block (j, l) in this rank's rows; rows are `stride_` apart.
  float* block_at(std::int64_t j, std::int64_t l) {
    return &rows_[(j - own_.begin) * block * stride_ + l * block];
  }
  /// Returns whether block (j, l) is updated. This is true for exactly one of (j, l) and (l, j) if j != l.
  bool updates(std::int64_t j, std::int64_t l) const;
  /// Writes row `k` of blocks to `row`, (blocks, block, block), on all ranks: each block from where it is
  /// updated, transposed if that is in another row. Collective.
  void gather_row(std::int64_t k, const Broadcast& broadcast, AlignedArray<float>& row);

  std::int64_t n_;
  int rank_;
  int ranks_;
  int threads_;
  std::int64_t stride_;       // n rounded up to complete blocks
  Range own_;                 // blocks
  AlignedArray<float> rows_;  // (own rows, stride)
};

/// A block (SpdInverse::block, SpdInverse::block) in fp64: the pivots of the sweeps of every device.
using Block = std::vector<double>;
/// Replaces the lower triangle of `a` by its Cholesky factor L. Returns false if `a` is not positive
/// definite.
[[nodiscard]] inline bool factorize(Block& a) {
  constexpr std::int64_t block = SpdInverse::block;
  for (std::int64_t j = 0; j < block; ++j) {
    double* row = &a[j * block];
    for (std::int64_t k = 0; k < j; ++k) {
      const double* other = &a[k * block];
      double sum = row[k];
      for (std::int64_t i = 0; i < k; ++i) sum -= row[i] * other[i];
      row[k] = sum / other[k];
    }
    double pivot = row[j];
    for (std::int64_t i = 0; i < j; ++i) pivot -= row[i] * row[i];
    if (!(pivot > 0.0) || !std::isfinite(pivot)) return false;
    row[j] = std::sqrt(pivot);
  }
  return true;
}

/// Writes columns `columns` of (L L^T)^-1 to `inverse`, and of L^-1 to `work`.
inline void invert_columns(const Block& factor, Range columns, Block& work, Block& inverse) {
  constexpr std::int64_t block = SpdInverse::block;
  for (std::int64_t i = 0; i < block; ++i) {
    double* row = &work[i * block];
    for (std::int64_t c = columns.begin; c < columns.end; ++c) row[c] = i == c ? 1.0 : 0.0;
    for (std::int64_t k = columns.begin; k < i; ++k) {
      const double l = factor[i * block + k];
      const double* other = &work[k * block];
      for (std::int64_t c = columns.begin; c < columns.end; ++c) row[c] -= l * other[c];
    }
    const double scale = 1.0 / factor[i * block + i];
    for (std::int64_t c = columns.begin; c < columns.end; ++c) row[c] *= scale;
  }
  // inverse = L^-T (L^-1): backward substitution.
  for (std::int64_t i = block - 1; i >= 0; --i) {
    double* row = &inverse[i * block];
    const double* right = &work[i * block];
    for (std::int64_t c = columns.begin; c < columns.end; ++c) row[c] = right[c];
    for (std::int64_t k = i + 1; k < block; ++k) {
      const double l = factor[k * block + i];
      const double* other = &inverse[k * block];
      for (std::int64_t c = columns.begin; c < columns.end; ++c) row[c] -= l * other[c];
    }
    const double scale = 1.0 / factor[i * block + i];
    for (std::int64_t c = columns.begin; c < columns.end; ++c) row[c] *= scale;
  }
}

}  // namespace vaecf::device
