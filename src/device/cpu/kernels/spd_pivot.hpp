#pragma once

#include <vaecf/device/host_solvers.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

/// The inverse of a pivot block on the host, for the sweeps of every device.
namespace vaecf::device {

/// A block (SpdInverse::block, SpdInverse::block) in fp64.
using Block = std::vector<double>;

/// Replaces the lower triangle of `a` by its Cholesky factor L. Returns false if `a` is not positive
/// definite.
inline bool factorize(Block& a) {
  constexpr std::int64_t block = device::SpdInverse::block;
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
  constexpr std::int64_t block = device::SpdInverse::block;
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
