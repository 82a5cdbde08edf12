#include <vaecf/math/random.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace vaecf::math {
namespace {

struct KnownAnswer {
  std::uint32_t counter[4];
  std::uint32_t key[2];
  std::uint32_t word[4];
};

// Random123, tests/kat_vectors, philox4x32 10.
constexpr KnownAnswer known_answers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

TEST(Philox, KnownAnswers) {
  for (const KnownAnswer& known : known_answers) {
    const PhiloxBlock block = philox4x32_10(known.counter, known.key);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(block.word[i], known.word[i]);
  }
}

TEST(Philox, CounterAndKeyHaveTheDocumentedLayout) {
  const std::uint64_t seed = 0x0123456789abcdefULL;
  const std::uint32_t key[2] = {0x89abcdef, 0x01234567};
  for (const std::uint32_t index : {0U, 3U, 4U, 30U, 0xffffffffU}) {
    const std::uint32_t counter[4] = {index / 4, 77, 5, 2};
    EXPECT_EQ(random_word(seed, RandomStream::latent_noise, 5, 77, index),
              philox4x32_10(counter, key).word[index % 4]);
  }
}

TEST(Philox, UniformAndThresholdsAreInTheirIntervals) {
  EXPECT_EQ(uniform01(0), 0x1p-33F);
  EXPECT_EQ(uniform01(0xffffffffU), 1.0F);
  EXPECT_EQ(uniform01(0x80000000U), 0.5F);
  EXPECT_EQ(dropout_threshold(1.0F), 0x100000000ULL);
  EXPECT_EQ(dropout_threshold(0.5F), 0x80000000ULL);
  EXPECT_EQ(dropout_threshold(0.0F), 0U);
}

TEST(LatentNoise, IsBoxMullerOfItsWordPairs) {
  for (std::uint32_t index = 0; index < 64; ++index) {
    const std::uint32_t even = index / 2 * 2;
    const double u1 = uniform01(random_word(9, RandomStream::latent_noise, 7, 4000000000U, even));
    const double u2 = uniform01(random_word(9, RandomStream::latent_noise, 7, 4000000000U, even + 1));
    const double angle = 2.0 * 3.14159265358979323846 * u2;
    const double expected =
        std::sqrt(-2.0 * std::log(u1)) * (index % 2 == 0 ? std::cos(angle) : std::sin(angle));
    float noise[4];
    latent_noise_block(9, 7, 4000000000U, index / 4, noise);
    EXPECT_NEAR(noise[index % 4], expected, 3e-6) << index;
    EXPECT_EQ(
        normal_from_block(random_block(9, RandomStream::latent_noise, 7, 4000000000U, index / 4), index % 4),
        noise[index % 4]);
  }
}

TEST(InitialWeight, IsUniformAndUsesASeparateCounterWordBeyond32Bits) {
  EXPECT_FLOAT_EQ(xavier_limit(600, 400), static_cast<float>(std::sqrt(6.0 / 1000.0)));
  const std::uint64_t far = (7ULL << 32) + 6;
  for (const std::uint64_t index : {std::uint64_t{6}, far}) {
    const auto high = static_cast<std::uint32_t>(index >> 32);
    const std::uint32_t word = random_word(3, RandomStream::initialization, high, 1, 6);
    EXPECT_EQ(initial_weight(3, 1, index, 10, 20), xavier_limit(10, 20) * (2.0F * uniform01(word) - 1.0F));
  }
}

TEST(TruncatedNormal, FirstSampleIsUsedUnlessOutsideTheBound) {
  const int n = 20000;
  const std::uint32_t key[2] = {4, 0};
  int redrawn = 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    float draw = normal_from_block(random_block(4, RandomStream::initialization, 0, 9, i / 4), i % 4);
    if (std::abs(draw) > 2.0F) {
      ++redrawn;
      // The second attempt of an element uses a separate block, not a neighbor's first attempt.
      const std::uint32_t counter[4] = {i / 4, 9, 0, 3 + 256};
      draw = normal_from_block(philox4x32_10(counter, key), i % 4);
    }
    if (std::abs(draw) <= 2.0F) {
      EXPECT_EQ(truncated_normal(4, 9, i, 0.5F), 0.5F * draw);
    }
    EXPECT_LE(std::abs(truncated_normal(4, 9, i, 0.5F)), 1.0F);
  }
  EXPECT_NEAR(redrawn, n * 0.0455, 4.0 * std::sqrt(n * 0.0455));
}

}  // namespace
}  // namespace vaecf::math
