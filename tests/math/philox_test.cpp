#include <vaecf/math/philox.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

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

TEST(Philox, DropoutKeepsTheGivenFraction) {
  for (const float keep : {0.1F, 0.5F, 0.9F}) {
    const std::uint64_t threshold = dropout_threshold(keep);
    const int n = 200000;
    int kept = 0;
    for (int i = 0; i < n; ++i) {
      kept += dropout_keeps_item(42, 3, static_cast<std::uint32_t>(i / 500),
                                 static_cast<std::uint32_t>(i % 500), threshold);
    }
    const double sd = std::sqrt(n * keep * (1.0 - keep));
    EXPECT_NEAR(kept, n * static_cast<double>(keep), 4.0 * sd) << keep;
  }
}

TEST(Philox, HistoriesAreDroppedByUserAndStep) {
  const std::uint64_t threshold = dropout_threshold(0.9F);
  const int n = 20000;
  int kept = 0;
  int kept_twice = 0;
  for (std::uint32_t user = 0; user < n; ++user) {
    const bool now = dropout_keeps_history(42, 3, user, threshold);
    kept += now;
    kept_twice += now && dropout_keeps_history(42, 4, user, threshold);
    EXPECT_TRUE(dropout_keeps_history(42, 3, user, dropout_threshold(1.0F)));
  }
  EXPECT_NEAR(kept, 0.9 * n, 4.0 * std::sqrt(n * 0.09));
  EXPECT_NEAR(kept_twice, 0.81 * n, 4.0 * std::sqrt(n * 0.81 * 0.19)) << "steps are independent";
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

TEST(LatentNoise, IsStandardNormal) {
  std::vector<double> values;
  for (std::uint32_t user = 0; user < 1000; ++user) {
    for (std::uint32_t block = 0; block < 50; ++block) {
      float noise[4];
      latent_noise_block(1, 0, user, block, noise);
      values.insert(values.end(), noise, noise + 4);
    }
  }
  // Kolmogorov-Smirnov test: 1.95 / sqrt(n) is exceeded with probability 0.001.
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  double distance = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double phi = 0.5 * std::erfc(-values[i] / std::sqrt(2.0));
    distance = std::max(distance, std::abs(phi - static_cast<double>(i + 1) / n));
  }
  EXPECT_LT(distance, 1.95 / std::sqrt(n));
}

}  // namespace
}  // namespace vaecf::math
