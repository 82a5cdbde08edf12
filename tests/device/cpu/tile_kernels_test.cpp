// The operations of the output layer's custom kernels, compared with plain loops for every kernel that this
// CPU supports.
#include <vaecf/base/half_precision.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "device/cpu/kernels/tiles.hpp"
#include "device/cpu/storage.hpp"
#include "support/emulated_tiles.hpp"

namespace vaecf::cpu {
namespace {

using testing::EmulatedMatrixUnit;
using testing::EmulatedTiles;

/// The AMX product on an emulated matrix unit; other operations are plain loops.
class EmulatedAmx : public EmulatedTiles {
 public:
  const char* name() const override { return "AMX on paper"; }
  void multiply(const TileProduct& product) const override { multiply_by_unit<EmulatedMatrixUnit>(product); }
};

std::shared_ptr<const TileKernels> make_plain_tiles() {
  return std::shared_ptr<const TileKernels>(create_plain_tiles());
}

struct Machine {
  std::string name;
  std::shared_ptr<const TileKernels> (*make)();
};

void PrintTo(const Machine& machine, std::ostream* out) {
  *out << machine.name;
}

class TileOps : public ::testing::TestWithParam<Machine> {
 protected:
  void SetUp() override {
    kernels_ = GetParam().make();
    if (!kernels_) GTEST_SKIP() << "not supported by this CPU or this build";
    kernels_->enter();
    plain_.enter();
  }
  void TearDown() override {
    if (!kernels_) return;
    plain_.leave();
    kernels_->leave();
  }
  std::shared_ptr<const TileKernels> kernels_;
  EmulatedTiles plain_;
};

INSTANTIATE_TEST_SUITE_P(Machines, TileOps,
                         ::testing::Values(Machine{"amx", make_amx_tiles},
                                           Machine{"avx512", make_avx512_tiles},
                                           Machine{"plain", make_plain_tiles},
                                           Machine{"amx_on_paper",
                                                   []() -> std::shared_ptr<const TileKernels> {
                                                     return std::make_shared<EmulatedAmx>();
                                                   }}),
                         [](const auto& machine) { return machine.param.name; });

AlignedArray<std::uint16_t> random_tiles(std::int64_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  AlignedArray<std::uint16_t> tiles(count * tile_numbers);
  for (std::int64_t i = 0; i < tiles.size(); ++i) tiles.data()[i] = to_bf16(normal(engine));
  return tiles;
}

// Ranking depends on this: it computes some scores twice and compares the results.
TEST_P(TileOps, BitsDoNotDependOnThePosition) {
  constexpr std::int64_t tiles = 3;
  const AlignedArray<std::uint16_t> a = random_tiles(tiles, 1);
  const AlignedArray<std::uint16_t> b = random_tiles(tiles, 2);
  // Moves every row and column to another position.
  const auto elsewhere = [](std::int64_t i) { return (i * 13 + 5) % tile_side; };
  AlignedArray<std::uint16_t> moved_a(a.size()), pairs(a.size()), moved(tile_numbers), moved_pairs(a.size());
  for (std::int64_t t = 0; t < tiles; ++t) {
    const std::int64_t first = t * tile_numbers;
    for (std::int64_t i = 0; i < tile_side; ++i) {
      for (std::int64_t k = 0; k < tile_side; ++k) {
        moved_a.data()[first + elsewhere(i) * tile_side + k] = a.data()[first + i * tile_side + k];
        moved.data()[k * tile_side + elsewhere(i)] = b.data()[first + k * tile_side + i];
      }
    }
    kernels_->pair(b.data() + first, pairs.data() + first);
    kernels_->pair(moved.data(), moved_pairs.data() + first);
  }
  AlignedArray<float> c(tile_numbers), moved_c(tile_numbers);
  kernels_->multiply({.a = a.data(), .b = pairs.data(), .c = c.data(), .reduced = tiles * tile_side});
  kernels_->multiply(
      {.a = moved_a.data(), .b = moved_pairs.data(), .c = moved_c.data(), .reduced = tiles * tile_side});
  for (std::int64_t r = 0; r < tile_side; ++r) {
    for (std::int64_t i = 0; i < tile_side; ++i) {
      ASSERT_EQ(moved_c.data()[elsewhere(r) * tile_side + elsewhere(i)], c.data()[r * tile_side + i])
          << r << ", " << i;
    }
  }
}

// Integers, whose sums are exact in any order. After `reduced` elements, one operand is zero, as specified.
TEST_P(TileOps, ProductsOfIntegersAreExact) {
  for (const std::int64_t reduced : {1, 2, 3, 31, 32, 33, 64, 500, 600}) {
    const std::int64_t tiles = (reduced + tile_side - 1) / tile_side;
    std::mt19937 engine(7);
    AlignedArray<std::uint16_t> a(tiles * tile_numbers), rows(tile_numbers), b(tiles * tile_numbers);
    const auto number = [&] { return to_bf16(static_cast<float>(static_cast<int>(engine() % 17) - 8)); };
    for (std::int64_t t = 0; t < tiles; ++t) {
      for (std::int64_t i = 0; i < tile_numbers; ++i) {
        a.data()[t * tile_numbers + i] = number();
        rows.data()[i] = t * tile_side + i / tile_side < reduced ? number() : 0;
      }
      plain_.pair(rows.data(), b.data() + t * tile_numbers);
    }
    for (const std::int64_t count : {1, 7, 8, 20, 32}) {
      for (const std::int64_t stride : {32, 33, 600}) {
        for (const bool accumulate : {false, true}) {
          std::vector<float> expected(static_cast<std::size_t>(32 * stride), 3.0F);
          std::vector<float> found = expected;
          TileProduct product{.a = a.data(),
                              .b = b.data(),
                              .c = expected.data(),
                              .reduced = reduced,
                              .rows = count,
                              .stride = stride,
                              .accumulate = accumulate};
          plain_.multiply(product);
          product.c = found.data();
          // Arbitrary memory of a size that is not a multiple of any step.
          product.prefetch = a.data();
          product.prefetch_bytes = 1000;
          kernels_->multiply(product);
          for (std::int64_t r = 0; r < 32; ++r) {
            for (std::int64_t c = 0; c < stride; ++c) {
              // Unused rows may contain anything; memory next to the tile must not change.
              if (r >= count && c < 32) continue;
              const auto i = static_cast<std::size_t>(r * stride + c);
              ASSERT_EQ(found[i], expected[i]) << reduced << " x " << count << " at " << r << ", " << c;
            }
          }
        }
      }
    }
  }
}

TEST_P(TileOps, TransposesAndPairs) {
  const AlignedArray<std::uint16_t> from = random_tiles(1, 1);
  AlignedArray<std::uint16_t> expected(tile_numbers), found(tile_numbers);
  const auto same = [&] { return std::equal(expected.data(), expected.data() + tile_numbers, found.data()); };
  plain_.transpose(from.data(), expected.data());
  kernels_->transpose(from.data(), found.data());
  EXPECT_TRUE(same());
  plain_.pair(from.data(), expected.data());
  kernels_->pair(from.data(), found.data());
  EXPECT_TRUE(same());
}

TEST_P(TileOps, ExponentialsOfATile) {
  AlignedArray<float> logits(tile_numbers);
  std::vector<float> bias(32), reference(32);
  std::mt19937 engine(3);
  std::uniform_real_distribution<float> wide(-60.0F, 60.0F);
  for (std::int64_t i = 0; i < tile_numbers; ++i) logits.data()[i] = wide(engine);
  for (std::size_t i = 0; i < 32; ++i) {
    bias[i] = 0.25F * static_cast<float>(i);
    reference[i] = 2.0F * static_cast<float>(i);
  }
  bias[5] = -3e38F;      // a padding item
  reference[9] = 3e38F;  // an absent user
  logits.data()[7 * 32 + 11] = 1000.0F;
  logits.data()[8 * 32 + 12] = std::nanf("");
  AlignedArray<std::uint16_t> e(tile_numbers);
  std::vector<float> sum(32, 1.0F), largest(32, -10.0F);
  kernels_->exponentials(logits.data(), bias.data(), reference.data(), e.data(), sum.data(), largest.data());
  for (std::size_t c = 0; c < 32; ++c) {
    double expected_sum = 1.0;
    float expected_largest = -10.0F;
    for (std::size_t r = 0; r < 32; ++r) {
      const float l = logits.data()[r * 32 + c] + bias[r] - reference[c];
      const float found = from_bf16(e.data()[r * 32 + c]);
      if (std::isnan(l)) {
        EXPECT_TRUE(std::isnan(found));
        expected_sum = std::nan("");
        continue;
      }
      const double exact = std::exp(static_cast<double>(std::clamp(l, -87.3F, 88.3F)));
      EXPECT_NEAR(found, exact, 0.00391 * exact) << r << ", " << c << ": exp(" << l << ")";
      expected_sum += exact;
      expected_largest = std::max(expected_largest, l);
    }
    EXPECT_EQ(largest[c], expected_largest) << c;
    if (std::isnan(expected_sum))
      EXPECT_TRUE(std::isnan(sum[c])) << c;
    else
      EXPECT_NEAR(sum[c], expected_sum, 2e-6 * expected_sum) << c;
  }
  EXPECT_LT(from_bf16(e.data()[5 * 32]), 2e-38F);
  EXPECT_LT(from_bf16(e.data()[9]), 2e-38F);
  EXPECT_TRUE(std::isfinite(from_bf16(e.data()[7 * 32 + 11])));
}

TEST(TileMachines, BestAvailableKernelIsChosen) {
  const auto chosen = choose_tiles();
  if (make_amx_tiles())
    EXPECT_STREQ(chosen->name(), "AMX");
  else if (make_avx512_tiles())
    EXPECT_STREQ(chosen->name(), "AVX-512 BF16");
#if defined(__x86_64__)
  else
    EXPECT_EQ(chosen, nullptr);
#else
  else
    EXPECT_STREQ(chosen->name(), "plain vectors");
#endif
}

TEST(EmulatedAmx, PrefetchesExactlyTheGivenRange) {
  const AlignedArray<std::uint16_t> a = random_tiles(19, 1);
  const AlignedArray<std::uint16_t> b = random_tiles(19, 2);
  AlignedArray<float> c(tile_numbers), memory(4000);
  const EmulatedAmx kernels;
  auto& prefetched = EmulatedMatrixUnit::prefetched();
  for (const std::int64_t bytes : {0, 64, 6400, 16000}) {
    prefetched.clear();
    kernels.multiply({.a = a.data(),
                      .b = b.data(),
                      .c = c.data(),
                      .reduced = 600,
                      .prefetch = memory.data(),
                      .prefetch_bytes = bytes});
    ASSERT_EQ(prefetched.size(), static_cast<std::size_t>((bytes + 63) / 64));
    for (std::size_t i = 0; i < prefetched.size(); ++i) {
      EXPECT_EQ(prefetched[i], reinterpret_cast<const char*>(memory.data()) + 64 * i);
    }
  }
}

}  // namespace
}  // namespace vaecf::cpu
