#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "device/contract/contract.hpp"
#include "device/cpu/device.hpp"
#include "device/cpu/kernels/gemm.hpp"
#include "device/cpu/kernels/panels.hpp"
#include "support/emulated_tiles.hpp"

namespace vaecf::testing {
namespace {

constexpr float untouched = 7.5F;

/// Compares a product with sums in double precision; memory beside it must not change.
void expect_product(cpu::GemmEngine& engine, const cpu::MatmulSpec& s, bool packs, double tolerance) {
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
      ASSERT_NEAR(c[i * s.ldc + j], expected, j < s.n ? tolerance : 0.0)
          << s.m << " x " << s.n << " x " << s.k << " at " << i << ", " << j << ", strides " << s.lda << ", "
          << s.ldb << ", " << s.ldc << ", transposed " << s.a_transposed << s.b_transposed << ", accumulate "
          << s.accumulate << ", packed " << packs;
    }
  }
}

struct Panels {
  std::string name;
  cpu::PanelKernel (*make)();
};

void PrintTo(const Panels& panels, std::ostream* out) {
  *out << panels.name;
}

class PanelProduct : public ::testing::TestWithParam<Panels> {
 protected:
  void SetUp() override {
    if (GetParam().make() == nullptr) GTEST_SKIP() << "this CPU has no AVX2";
    engine_ = cpu::make_engine(GetParam().make());
  }

  std::vector<float> product(const cpu::MatmulSpec& spec, const std::vector<float>& a,
                             const std::vector<float>& b, std::vector<float> c) const {
    cpu::PackedOperand packed;
    engine_->pack(spec, b.data(), packed);
    engine_->run_packed(spec, a.data(), packed, c.data());
    return c;
  }

  std::unique_ptr<cpu::GemmEngine> engine_;
};

INSTANTIATE_TEST_SUITE_P(Kernels, PanelProduct,
                         ::testing::Values(Panels{"avx2", cpu::make_avx2_panels},
                                           Panels{"plain", cpu::plain_panel_kernel}),
                         [](const auto& panels) { return panels.param.name; });

// Every number of rows of a block, and of columns of the last panel; memory after them must not change.
TEST_P(PanelProduct, EqualsSumsInDoublePrecision) {
  for (const std::int64_t m : {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 29}) {
    for (const std::int64_t n : {1, 7, 8, 9, 15, 16, 17, 24, 25, 40, 41}) {
      for (const std::int64_t k : {1, 3, 4, 5, 66}) {
        for (const bool accumulate : {false, true}) {
          for (const bool transposed : {false, true}) {
            const cpu::MatmulSpec spec{.m = m,
                                       .n = n,
                                       .k = k,
                                       .b_transposed = transposed,
                                       .lda = k + 3,
                                       .ldb = (transposed ? k : n) + 2,
                                       .ldc = n + 5,
                                       .accumulate = accumulate};
            ASSERT_NO_FATAL_FAILURE(expect_product(*engine_, spec, true, 2e-5));
          }
        }
      }
    }
  }
}

TEST_P(PanelProduct, BitsDoNotDependOnThePosition) {
  constexpr std::int64_t m = 23, n = 37, k = 129;
  const cpu::MatmulSpec spec{.m = m, .n = n, .k = k, .b_transposed = true};
  auto a = random_values(m * k, 3);
  auto b = random_values(n * k, 4);
  for (std::int64_t i = 1; i < m; ++i) std::copy_n(a.begin(), k, a.begin() + i * k);
  for (std::int64_t j = 1; j < n; ++j) std::copy_n(b.begin(), k, b.begin() + j * k);
  for (const float x : product(spec, a, b, std::vector<float>(m * n))) {
    std::vector<float> one(1);
    cpu::MatmulSpec single = spec;
    single.m = single.n = single.ldc = 1;
    ASSERT_EQ(x, product(single, a, b, one)[0]);
  }
}

// A NaN weight, or a NaN in a user's row, must reach the check for a non-finite loss.
TEST_P(PanelProduct, NanStaysInItsColumn) {
  constexpr std::int64_t m = 7, n = 20, k = 9;
  const cpu::MatmulSpec spec{.m = m, .n = n, .k = k};
  const auto a = random_values(m * k, 5);
  auto b = random_values(k * n, 6);
  b[4 * n + 17] = NAN;
  const auto c = product(spec, a, b, std::vector<float>(m * n));
  for (std::int64_t i = 0; i < m * n; ++i) ASSERT_EQ(std::isnan(c[i]), i % n == 17) << i;
}

TEST_P(PanelProduct, EmptyProductsAreValid) {
  const cpu::MatmulSpec none{.m = 0, .n = 16, .k = 4, .lda = 4, .ldb = 16, .ldc = 16};
  EXPECT_EQ(product(none, {}, random_values(64, 7), {}), std::vector<float>{});
  const cpu::MatmulSpec nothing_reduced{.m = 3, .n = 5, .k = 0, .lda = 0, .ldb = 5, .ldc = 5};
  EXPECT_EQ(product(nothing_reduced, {}, {}, std::vector<float>(15, 1.0F)), std::vector<float>(15, 0.0F));
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
            ASSERT_NO_FATAL_FAILURE(expect_product(*engine, spec, packs, 1e-4));
        }
      }
    }
  }
}

TEST(Description, NamesTheCustomKernelOfThePrecision) {
  const auto kernel_of = [&](device::Precision precision, bool portable, bool with_tiles,
                             cpu::PanelKernel panels = cpu::plain_panel_kernel()) {
    const auto tiles = with_tiles ? std::make_shared<EmulatedTiles>() : nullptr;
    const std::string text = cpu::Device(1, precision, portable, tiles, panels).facts().description;
    const auto at = text.find("custom kernel (");
    return at == std::string::npos ? "" : text.substr(at + 15, text.find(')', at) - at - 15);
  };
  EXPECT_EQ(kernel_of(device::Precision::fp32, false, true), "plain vectors");
  EXPECT_EQ(kernel_of(device::Precision::fp32, false, true, nullptr), "");
  if (const cpu::PanelKernel avx2 = cpu::make_avx2_panels()) {
    EXPECT_EQ(kernel_of(device::Precision::fp32, false, true, avx2), "AVX2");
  }
  EXPECT_EQ(kernel_of(device::Precision::fp32, true, true), "");
  EXPECT_EQ(kernel_of(device::Precision::bf16, false, true), "emulated");
  EXPECT_EQ(kernel_of(device::Precision::bf16, false, false), "");
}

}  // namespace
}  // namespace vaecf::testing
