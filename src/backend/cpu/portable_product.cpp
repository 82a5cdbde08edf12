#include <vaecf/math/elementwise.hpp>

#include <algorithm>
#include <vector>

#include "product.hpp"

namespace vaecf::cpu {
namespace {

/// Operands are brought into fp32 blocks that fit the L1 and L2 caches; the innermost loop runs along a row
/// of b and of c.
class PortableEngine : public ProductEngine {
 public:
  void run(const ProductSpec& s, const void* a, const void* b, float* c) override {
    constexpr std::int64_t k_block = 128;
    constexpr std::int64_t n_block = 256;
    if (!s.accumulate) {
      for (std::int64_t i = 0; i < s.m; ++i) std::fill_n(c + i * s.ldc, s.n, 0.0F);
    }
    for (std::int64_t k0 = 0; k0 < s.k; k0 += k_block) {
      const std::int64_t k_count = std::min(k_block, s.k - k0);
      for (std::int64_t n0 = 0; n0 < s.n; n0 += n_block) {
        const std::int64_t n_count = std::min(n_block, s.n - n0);
        load_b(s, b, k0, k_count, n0, n_count);
        for (std::int64_t i = 0; i < s.m; ++i) {
          float* row = c + i * s.ldc + n0;
          for (std::int64_t k = 0; k < k_count; ++k) {
            const float factor =
                element(s.bf16, a, s.a_transposed ? (k0 + k) * s.lda + i : i * s.lda + k0 + k);
            const float* from = b_.data() + k * n_count;
#pragma omp simd
            for (std::int64_t j = 0; j < n_count; ++j) row[j] += factor * from[j];
          }
        }
      }
    }
  }

  std::unique_ptr<PackedOperand> make_packed() override {
    return std::make_unique<Copy>();
  }

  void pack(const ProductSpec& s, const void* b, PackedOperand& packed) override {
    const std::int64_t rows = s.b_transposed ? s.n : s.k;
    const auto* bytes = static_cast<const char*>(b);
    static_cast<Copy&>(packed).bytes.assign(bytes, bytes + rows * s.ldb * (s.bf16 ? 2 : 4));
  }

  void run_packed(const ProductSpec& s, const void* a, const PackedOperand& packed, float* c) override {
    run(s, a, static_cast<const Copy&>(packed).bytes.data(), c);
  }

 private:
  struct Copy : PackedOperand {
    std::vector<char> bytes;
  };

  static float element(bool bf16, const void* values, std::int64_t index) {
    return bf16 ? math::from_bf16(static_cast<const std::uint16_t*>(values)[index])
                : static_cast<const float*>(values)[index];
  }

  void load_b(const ProductSpec& s, const void* b, std::int64_t k0, std::int64_t k_count, std::int64_t n0,
              std::int64_t n_count) {
    b_.resize(static_cast<std::size_t>(k_count * n_count));
    for (std::int64_t k = 0; k < k_count; ++k) {
      for (std::int64_t j = 0; j < n_count; ++j) {
        const std::int64_t index = s.b_transposed ? (n0 + j) * s.ldb + k0 + k : (k0 + k) * s.ldb + n0 + j;
        b_[k * n_count + j] = element(s.bf16, b, index);
      }
    }
  }

  std::vector<float> b_;
};

}  // namespace

std::unique_ptr<ProductEngine> make_portable_engine() {
  return std::make_unique<PortableEngine>();
}

}  // namespace vaecf::cpu
