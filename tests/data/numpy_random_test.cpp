// All expected values were generated with NumPy 1.24.2 (np.random.seed, permutation, choice).
#include <gtest/gtest.h>

#include <array>

#include "data/random.hpp"
#include "data/support.hpp"

namespace vaecf::data {
namespace {

using Words = std::vector<std::uint32_t>;

Words words(NumpyRandom& random, int count) {
  Words drawn;
  for (int i = 0; i < count; ++i) drawn.push_back(random.word());
  return drawn;
}

struct Vector {
  std::uint32_t seed;
  Words raw;
  Numbers permutation10;
};

TEST(NumpyRandom, RawWordsAndPermutationsOf10) {
  const std::array<Vector, 3> vectors{
      Vector{0, {2357136044, 2546248239, 3071714933, 3626093760, 2588848963}, {2, 8, 4, 9, 1, 6, 7, 3, 0, 5}},
      Vector{42, {1608637542, 3421126067, 4083286876, 787846414, 3143890026}, {8, 1, 5, 0, 7, 2, 9, 4, 3, 6}},
      Vector{
          98765, {381816597, 462228979, 4069238124, 3270897581, 3428218845}, {8, 7, 1, 2, 0, 6, 9, 4, 3, 5}},
  };
  for (const Vector& v : vectors) {
    NumpyRandom raw(v.seed);
    EXPECT_EQ(words(raw, 5), v.raw) << v.seed;
    EXPECT_EQ(NumpyRandom(v.seed).permutation(10), v.permutation10) << v.seed;
  }
}

TEST(NumpyRandom, ChoicesInSequence) {
  NumpyRandom random(98765);
  EXPECT_EQ(random.choice(5, 1), (Numbers{4}));
  EXPECT_EQ(random.choice(9, 1), (Numbers{7}));
  EXPECT_EQ(random.choice(10, 2), (Numbers{4, 1}));
  EXPECT_EQ(random.choice(20, 4), (Numbers{8, 14, 13, 10}));
  EXPECT_EQ(random.choice(73, 14), (Numbers{34, 61, 4, 23, 0, 69, 13, 7, 46, 56, 55, 22, 51, 66}));
}

TEST(NumpyRandom, PermutationOfMovieLens20MUsers) {
  NumpyRandom random(98765);
  const Numbers users = random.permutation(136677);
  EXPECT_EQ(Numbers(users.begin(), users.begin() + 8),
            (Numbers{104323, 11053, 111295, 50587, 126873, 109564, 129424, 1596}));
  EXPECT_EQ(Numbers(users.end() - 4, users.end()), (Numbers{37808, 126893, 69107, 134933}));
  EXPECT_EQ(test::crc32(users), 0x6d0f6e4du);
  EXPECT_EQ(words(random, 3), (Words{1109596588, 2106713537, 176623633}));
}

TEST(NumpyRandom, ManyChoices) {
  NumpyRandom random(98765);
  Numbers all;
  for (std::int32_t n = 5; n < 1000; ++n) {
    const Numbers picked = random.choice(n, n / 5);
    all.insert(all.end(), picked.begin(), picked.end());
  }
  EXPECT_EQ(all.size(), 99500u);
  EXPECT_EQ(test::crc32(all), 0x3a38e776u);
}

}  // namespace
}  // namespace vaecf::data
