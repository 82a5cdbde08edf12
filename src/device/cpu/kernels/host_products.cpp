#include <vaecf/base/multiversioning.hpp>
#include <vaecf/device/host_products.hpp>

#include <algorithm>
#include <array>
#include <cstring>

namespace vaecf::device {
namespace {

template <class T, int lanes>
struct LanesOf {
  typedef T Type __attribute__((vector_size(lanes * sizeof(T)), aligned(sizeof(T)), may_alias));
};

template <int lanes>
VAECF_INLINE float sum_of_lanes(const void* vector) {
  std::array<float, lanes> parts;
  std::memcpy(parts.data(), vector, sizeof(parts));
  for (std::size_t half = lanes / 2; half > 0; half /= 2)
    for (std::size_t l = 0; l < half; ++l) parts[l] += parts[l + half];
  return parts[0];
}

/// Computes `rows` rows and 4 columns of c = a b'.
template <int lanes, int rows>
VAECF_INLINE void dot_tile(std::int64_t k, HostMatrix<const float> a, HostMatrix<const float> b,
                           HostMatrix<float> c) {
  using Vector = typename LanesOf<float, lanes>::Type;
  Vector sums[rows][4] = {};
  for (std::int64_t i = 0; i < k; i += lanes) {
    Vector right[4];
    for (int j = 0; j < 4; ++j) right[j] = *reinterpret_cast<const Vector*>(b.data + j * b.stride + i);
    for (int r = 0; r < rows; ++r) {
      const Vector left = *reinterpret_cast<const Vector*>(a.data + r * a.stride + i);
      for (int j = 0; j < 4; ++j) sums[r][j] += left * right[j];
    }
  }
  for (int r = 0; r < rows; ++r)
    for (int j = 0; j < 4; ++j) c.data[r * c.stride + j] = sum_of_lanes<lanes>(&sums[r][j]);
}

template <int lanes, int rows>
VAECF_INLINE void dot_tiles(std::int64_t m, std::int64_t n, std::int64_t k, HostMatrix<const float> a,
                            HostMatrix<const float> b, HostMatrix<float> c) {
  for (std::int64_t j = 0; j < n; j += 4)
    for (std::int64_t r = 0; r < m; r += rows)
      dot_tile<lanes, rows>(k, {a.data + r * a.stride, a.stride}, {b.data + j * b.stride, b.stride},
                            {c.data + r * c.stride + j, c.stride});
}

/// Adds to `rows` rows and two vectors of columns of c. Element (r, i) of a is at a[r * a_row + i *
/// a_column].
template <int lanes, int rows>
VAECF_INLINE void product_tile(std::int64_t k, const double* a, std::int64_t a_row, std::int64_t a_column,
                               HostMatrix<const double> b, HostMatrix<double> c) {
  using Vector = typename LanesOf<double, lanes>::Type;
  Vector sums[rows][2];
  for (int r = 0; r < rows; ++r)
    for (int p = 0; p < 2; ++p)
      sums[r][p] = *reinterpret_cast<const Vector*>(c.data + r * c.stride + p * lanes);
  for (std::int64_t i = 0; i < k; ++i) {
    const Vector right[2] = {*reinterpret_cast<const Vector*>(b.data + i * b.stride),
                             *reinterpret_cast<const Vector*>(b.data + i * b.stride + lanes)};
    for (int r = 0; r < rows; ++r)
      for (int p = 0; p < 2; ++p) sums[r][p] += a[r * a_row + i * a_column] * right[p];
  }
  for (int r = 0; r < rows; ++r)
    for (int p = 0; p < 2; ++p) *reinterpret_cast<Vector*>(c.data + r * c.stride + p * lanes) = sums[r][p];
}

template <int lanes, int rows>
VAECF_INLINE void product_tiles(std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
                                std::int64_t a_row, std::int64_t a_column, HostMatrix<const double> b,
                                HostMatrix<double> c) {
  for (std::int64_t j = 0; j < n; j += 2 * lanes)
    for (std::int64_t r = 0; r < m; r += rows)
      product_tile<lanes, rows>(k, a + r * a_row, a_row, a_column, {b.data + j, b.stride},
                                {c.data + r * c.stride + j, c.stride});
}

// Tiles of as many sums as the registers hold.
#if VAECF_MULTIVERSIONING
__attribute__((target("arch=x86-64-v4"))) void dots(std::int64_t m, std::int64_t n, std::int64_t k,
                                                    HostMatrix<const float> a, HostMatrix<const float> b,
                                                    HostMatrix<float> c) {
  dot_tiles<16, 4>(m, n, k, a, b, c);
}
__attribute__((target("arch=x86-64-v3"))) void dots(std::int64_t m, std::int64_t n, std::int64_t k,
                                                    HostMatrix<const float> a, HostMatrix<const float> b,
                                                    HostMatrix<float> c) {
  dot_tiles<8, 2>(m, n, k, a, b, c);
}
__attribute__((target("default")))
#endif
void dots(std::int64_t m, std::int64_t n, std::int64_t k, HostMatrix<const float> a,
          HostMatrix<const float> b, HostMatrix<float> c) {
  dot_tiles<4, 2>(m, n, k, a, b, c);
}

#if VAECF_MULTIVERSIONING
__attribute__((target("arch=x86-64-v4"))) void products(std::int64_t m, std::int64_t n, std::int64_t k,
                                                        const double* a, std::int64_t a_row,
                                                        std::int64_t a_column, HostMatrix<const double> b,
                                                        HostMatrix<double> c) {
  product_tiles<8, 8>(m, n, k, a, a_row, a_column, b, c);
}
__attribute__((target("arch=x86-64-v3"))) void products(std::int64_t m, std::int64_t n, std::int64_t k,
                                                        const double* a, std::int64_t a_row,
                                                        std::int64_t a_column, HostMatrix<const double> b,
                                                        HostMatrix<double> c) {
  product_tiles<4, 4>(m, n, k, a, a_row, a_column, b, c);
}
__attribute__((target("default")))
#endif
void products(std::int64_t m, std::int64_t n, std::int64_t k, const double* a, std::int64_t a_row,
              std::int64_t a_column, HostMatrix<const double> b, HostMatrix<double> c) {
  product_tiles<2, 4>(m, n, k, a, a_row, a_column, b, c);
}

}  // namespace

void multiply_by_rows(std::int64_t m, std::int64_t n, std::int64_t k, HostMatrix<const float> a,
                      HostMatrix<const float> b, HostMatrix<float> c) {
  dots(m, n, k, a, b, c);
}

void add_product(bool a_transposed, std::int64_t m, std::int64_t n, std::int64_t k,
                 HostMatrix<const double> a, HostMatrix<const double> b, HostMatrix<double> c) {
  products(m, n, k, a.data, a_transposed ? 1 : a.stride, a_transposed ? a.stride : 1, b, c);
}

VAECF_CLONES void sum_rows(const SparseRow& row, const float* scales, HostMatrix<const float> rows,
                           std::int64_t width, float scale, float* __restrict y) {
  std::fill_n(y, width, 0.0F);
  for (std::size_t n = 0; n < row.columns.size(); ++n) {
    const float factor = scales[row.columns[n]] * row.value(n);
    const float* x = rows.data + row.columns[n] * rows.stride;
    for (std::int64_t k = 0; k < width; ++k) y[k] += factor * x[k];
  }
  for (std::int64_t k = 0; k < width; ++k) y[k] *= scale;
}

}  // namespace vaecf::device
