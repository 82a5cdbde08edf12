#pragma once

#include <vaecf/base/views.hpp>

#include <cstdint>

/// Products in host memory on the calling thread. An element of a result is a sum whose order depends on the
/// shapes alone, and on nothing but its operands.
namespace vaecf::device {

/// The elements of a matrix in memory: row r begins at data + r * stride.
template <class T>
struct HostMatrix {
  T* data = nullptr;
  std::int64_t stride = 0;
};

/// Computes c (m, n) = a b' for a (m, k) and b (n, k) in fp32. m and n must be multiples of 4, k of 16.
void multiply_by_rows(std::int64_t m, std::int64_t n, std::int64_t k, HostMatrix<const float> a,
                      HostMatrix<const float> b, HostMatrix<float> c);

/// Computes c (m, n) += a' b for a (k, m), or a b for a (m, k), and b (k, n) in fp64. m must be a multiple of
/// 8, n of 16.
void add_product(bool a_transposed, std::int64_t m, std::int64_t n, std::int64_t k,
                 HostMatrix<const double> a, HostMatrix<const double> b, HostMatrix<double> c);

/// Computes y (width) = scale * sum of scales[i] x_i (row i of `rows`) over the elements x of `row`, whose
/// column is i.
void sum_rows(const SparseRow& row, const float* scales, HostMatrix<const float> rows, std::int64_t width,
              float scale, float* y);

}  // namespace vaecf::device
