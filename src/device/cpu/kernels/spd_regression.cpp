#include <vaecf/device/spd_inverse.hpp>
#include <vaecf/device/spd_regression.hpp>

#include <algorithm>
#include <array>
#include <cmath>

#include "device/cpu/kernels/panels.hpp"
#include "device/cpu/kernels/vector_kernels.hpp"

namespace vaecf::device {
namespace {

constexpr std::int64_t panel_width = 16;
constexpr std::int64_t block_size = panel_width * panel_width;

template <int lanes>
struct VectorOf {
  typedef float Type __attribute__((vector_size(lanes * sizeof(float)), may_alias));
};

/// Computes c -= a'b for `rows` columns of the panel a and all columns of the panel b, over n rows.
template <int lanes, int rows>
VAECF_INLINE void subtract_products(const float* a, const float* b, std::int64_t n, float* c) {
  using Vector = typename VectorOf<lanes>::Type;
  constexpr int parts = panel_width / lanes;
  Vector sums[rows][parts] = {};
  for (std::int64_t k = 0; k < n; ++k) {
    for (int p = 0; p < parts; ++p) {
      const Vector right = reinterpret_cast<const Vector*>(b + k * panel_width)[p];
      for (int r = 0; r < rows; ++r) sums[r][p] += a[k * panel_width + r] * right;
    }
  }
  for (int r = 0; r < rows; ++r)
    for (int p = 0; p < parts; ++p) reinterpret_cast<Vector*>(c + r * panel_width)[p] -= sums[r][p];
}

/// Replaces the upper triangle of a block by its factor U, and writes the inverse of U's diagonal. Returns
/// false if the block is not positive definite.
VAECF_INLINE bool factorize_block(float* block, float* inverse) {
  for (std::int64_t r = 0; r < panel_width; ++r) {
    float* row = block + r * panel_width;
    if (!(row[r] > 0.0F) || !std::isfinite(row[r])) return false;
    row[r] = std::sqrt(row[r]);
    inverse[r] = 1.0F / row[r];
    for (std::int64_t c = r + 1; c < panel_width; ++c) row[c] *= inverse[r];
    for (std::int64_t m = r + 1; m < panel_width; ++m)
      for (std::int64_t c = m; c < panel_width; ++c) block[m * panel_width + c] -= row[m] * row[c];
  }
  return true;
}

/// Replaces a block C by U'^-1 C.
template <int lanes>
VAECF_INLINE void solve_block(const float* u, const float* inverse, float* block) {
  using Vector = typename VectorOf<lanes>::Type;
  for (int p = 0; p < panel_width / lanes; ++p) {
    const auto part = [&](std::int64_t row) -> Vector& {
      return reinterpret_cast<Vector*>(block + row * panel_width)[p];
    };
    for (std::int64_t r = 0; r < panel_width; ++r) {
      Vector x = part(r);
      for (std::int64_t m = 0; m < r; ++m) x -= u[m * panel_width + r] * part(m);
      part(r) = x * inverse[r];
    }
  }
}

/// Replaces a matrix in panels by its factor U. Returns false if it is not positive definite.
template <int lanes, int rows>
VAECF_INLINE bool factorize_panels(float* matrix, std::int64_t panels) {
  const auto panel = [&](std::int64_t p) { return matrix + block_size * (p * (p + 1) / 2); };
  for (std::int64_t i = 0; i < panels; ++i) {
    float* diagonal = panel(i) + i * block_size;
    std::array<float, panel_width> inverse;
    for (std::int64_t j = i; j < panels; ++j) {
      float* block = panel(j) + i * block_size;
      for (std::int64_t r = 0; r < panel_width; r += rows)
        subtract_products<lanes, rows>(panel(i) + r, panel(j), i * panel_width, block + r * panel_width);
      if (j > i)
        solve_block<lanes>(diagonal, inverse.data(), block);
      else if (!factorize_block(diagonal, inverse.data()))
        return false;
    }
  }
  return true;
}

// Twice the number of accumulators that hide the latency of two multiply-adds per cycle would not fit in the
// registers of AVX2.
#if VAECF_MULTIVERSIONING
__attribute__((target("arch=x86-64-v4"))) bool factorize(float* matrix, std::int64_t panels) {
  return factorize_panels<16, 8>(matrix, panels);
}
__attribute__((target("arch=x86-64-v3"))) bool factorize(float* matrix, std::int64_t panels) {
  return factorize_panels<8, 4>(matrix, panels);
}
__attribute__((target("default")))
#endif
bool factorize(float* matrix, std::int64_t panels) {
  return factorize_panels<4, 2>(matrix, panels);
}

}  // namespace

void SpdRegression::reset(std::int64_t n) {
  static_assert(width == panel_width);
  n_ = n;
  const std::int64_t panels = (n + width - 1) / width;
  const std::int64_t size = block_size * (panels * (panels + 1) / 2);
  values_.reserve(size);
  std::fill_n(values_.data(), size, 0.0F);
  // The padding is an identity matrix.
  for (std::int64_t i = n; i < panels * width; ++i) at(i, i) = 1.0F;
}

float SpdRegression::solve(std::span<float> coefficients) {
  if (!factorize(values_.data(), (n_ + width - 1) / width)) return 0.0F;
  // The last column of U is U_NN'^-1 a; backward substitution by rows of panels.
  const std::int64_t last = n_ - 1;
  for (std::int64_t i = 0; i < last; ++i) coefficients[static_cast<std::size_t>(i)] = at(i, last);
  for (std::int64_t first = (last - 1) / width * width; first >= 0; first -= width) {
    const float* u = panel(first / width);
    const std::int64_t columns = std::min(width, last - first);
    std::array<float, panel_width> x{};
    for (std::int64_t c = columns - 1; c >= 0; --c) {
      const float* row = u + (first + c) * width;
      float value = coefficients[static_cast<std::size_t>(first + c)];
      for (std::int64_t k = c + 1; k < columns; ++k) value -= row[k] * x[static_cast<std::size_t>(k)];
      x[static_cast<std::size_t>(c)] = value / row[c];
      coefficients[static_cast<std::size_t>(first + c)] = x[static_cast<std::size_t>(c)];
    }
    for (std::int64_t i = 0; i < first; ++i) {
      float sum = 0.0F;
      for (std::int64_t c = 0; c < width; ++c) sum += u[i * width + c] * x[static_cast<std::size_t>(c)];
      coefficients[static_cast<std::size_t>(i)] -= sum;
    }
  }
  return at(last, last) * at(last, last);
}

}  // namespace vaecf::device
