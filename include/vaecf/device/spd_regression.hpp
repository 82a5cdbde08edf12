#pragma once

#include <vaecf/base/aligned_array.hpp>

#include <cstdint>
#include <span>

namespace vaecf::device {

/// Solves one small regression at a time on the calling thread: for a symmetric positive definite matrix
/// A (n, n), the coefficients of its last variable on the others, A_NN^-1 a with the last column a and
/// N = 0 .. n-2. Computes the Cholesky factorization A = U'U in fp32, about n^3 / 3 operations.
class SpdRegression {
 public:
  /// Starts a matrix of n rows, filled with 0.
  void reset(std::int64_t n);
  std::int64_t size() const { return n_; }
  /// Returns element (row, column) of A, row <= column; the other triangle is not stored.
  float& at(std::int64_t row, std::int64_t column) {
    return panel(column / width)[row * width + column % width];
  }
  /// Writes the n - 1 coefficients and destroys A. Returns the residual a_nn - a' A_NN^-1 a, which is the
  /// reciprocal of the last diagonal element of the inverse of A, or 0 if A is not positive definite.
  float solve(std::span<float> coefficients);

 private:
  /// Columns per panel. Panel p contains rows 0 .. 16 p + 15 of columns 16 p .. 16 p + 15, contiguous.
  static constexpr std::int64_t width = 16;
  float* panel(std::int64_t p) { return values_.data() + width * width * (p * (p + 1) / 2); }

  std::int64_t n_ = 0;
  AlignedArray<float> values_;
};

}  // namespace vaecf::device
