#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/device/cpu/storage.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <span>

namespace vaecf::cpu {

/// A 0/1 matrix X (users, items), by users and by items, and weights w of the users; does not own its memory.
struct Interactions {
  CsrView users;                   ///< items of each user
  CsrView items;                   ///< users of each item
  std::span<const float> weights;  ///< (users)
};

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

  /// Allocates this rank's rows, filled with 0, for `rank` of `ranks` and `threads` threads.
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
  Inversion invert(const Broadcast& broadcast, const Progress& progress);

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
  void gather_row(std::int64_t k, const Broadcast& broadcast, FloatBuffer& row);

  std::int64_t n_;
  int rank_;
  int ranks_;
  int threads_;
  std::int64_t stride_;  // n rounded up to complete blocks
  Range own_;            // blocks
  FloatBuffer rows_;     // (own rows, stride)
};

}  // namespace vaecf::cpu
