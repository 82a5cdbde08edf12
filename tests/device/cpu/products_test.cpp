// Products of the engine that the program uses, of every shape at the edges, against sums in double
// precision.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "device/contract/contract.hpp"
#include "device/cpu/kernels/gemm.hpp"

namespace vaecf::testing {
namespace {

constexpr float untouched = 7.5F;

void expect_product(cpu::GemmEngine& engine, const cpu::MatmulSpec& s, bool packs) {
  const auto a = random_values((s.a_transposed ? s.k : s.m) * s.lda, 1);
  const auto b = random_values((s.b_transposed ? s.n : s.k) * s.ldb, 2);
  std::vector<float> c(static_cast<std::size_t>(s.m * s.ldc), untouched);
  if (packs) {
    cpu::PackedOperand packed;
    engine.pack(s, b.data(), packed);
    engine.run_packed(s, a.data(), packed, c.data());
  } else {
    engine.run(s, a.data(), b.data(), c.data());
  }
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.ldc; ++j) {
      double expected = j < s.n && !s.accumulate ? 0.0 : untouched;
      for (std::int64_t x = 0; j < s.n && x < s.k; ++x) {
        expected += static_cast<double>(a[s.a_transposed ? x * s.lda + i : i * s.lda + x]) *
                    static_cast<double>(b[s.b_transposed ? j * s.ldb + x : x * s.ldb + j]);
      }
      ASSERT_NEAR(c[i * s.ldc + j], expected, j < s.n ? 1e-4 : 0.0)
          << s.m << " x " << s.n << " x " << s.k << " at " << i << ", " << j << ", strides " << s.lda << ", "
          << s.ldb << ", " << s.ldc << ", transposed " << s.a_transposed << s.b_transposed << ", accumulate "
          << s.accumulate << ", packed " << packs;
    }
  }
}

// A matrix of one row or column, or a part of a wider one: oneDNN 3.7.2 was wrong for some of them.
TEST(Products, EqualSumsInDoublePrecision) {
  const auto engine = cpu::make_onednn_engine();
  constexpr std::array<std::int64_t, 5> sizes{1, 2, 7, 16, 33};
  for (const std::int64_t m : sizes) {
    for (const std::int64_t n : sizes) {
      for (const std::int64_t k : {std::int64_t{1}, std::int64_t{33}, std::int64_t{257}}) {
        for (int options = 0; options < 64; ++options) {
          const bool a_transposed = (options & 1) != 0;
          const bool b_transposed = (options & 2) != 0;
          const cpu::MatmulSpec spec{.m = m,
                                     .n = n,
                                     .k = k,
                                     .a_transposed = a_transposed,
                                     .b_transposed = b_transposed,
                                     .lda = (a_transposed ? m : k) + ((options & 4) != 0 ? 32 : 0),
                                     .ldb = (b_transposed ? k : n) + ((options & 8) != 0 ? 3 : 0),
                                     .ldc = n + ((options & 16) != 0 ? 5 : 0),
                                     .accumulate = (options & 32) != 0};
          for (const bool packs : {false, true})
            ASSERT_NO_FATAL_FAILURE(expect_product(*engine, spec, packs));
        }
      }
    }
  }
}

}  // namespace
}  // namespace vaecf::testing
