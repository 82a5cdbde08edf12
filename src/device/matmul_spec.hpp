#pragma once

#include <compare>
#include <cstdint>

namespace vaecf::device {

/// Element type.
enum class DType { fp32, bf16, fp16 };
inline std::int64_t size_of(DType dtype) {
  return dtype == DType::fp32 ? 4 : 2;
}

/// A matrix product c (m, n) = a (m, k) b (k, n). Adds the previous contents of c if `accumulate` is set, or
/// `bias` (n) to every row if one is given. Row-major with leading dimensions, by default without padding; a
/// transposed operand is stored as (k, m) or (n, k). Sums are fp32; a 16-bit result may be rounded both
/// before and after c or a bias is added. On a CPU, operands are fp32 or bf16, c is fp32, and there is no
/// bias.
struct MatmulSpec {
  std::int64_t m = 0, n = 0, k = 0;
  bool a_transposed = false;
  bool b_transposed = false;
  std::int64_t lda = a_transposed ? m : k;
  std::int64_t ldb = b_transposed ? k : n;
  std::int64_t ldc = n;
  bool accumulate = false;
  bool bias = false;
  DType operands = DType::fp32;
  DType result = DType::fp32;  ///< type of c and bias: fp32 or equal to `operands`
  auto operator<=>(const MatmulSpec&) const = default;
};

}  // namespace vaecf::device
