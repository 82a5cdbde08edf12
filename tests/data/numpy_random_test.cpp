// All expected values were generated with NumPy 1.24.2 (np.random.seed, permutation, choice).
#include <gtest/gtest.h>

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

TEST(NumpyRandom, WordsAndPermutationsAreThoseOfItsSeed) {
  for (const auto& [seed, expected] :
       std::map<std::uint32_t, Words>{{0, {2357136044, 2546248239, 3071714933, 3626093760, 2588848963}},
                                      {42, {1608637542, 3421126067, 4083286876, 787846414, 3143890026}},
                                      {98765, {381816597, 462228979, 4069238124, 3270897581, 3428218845}}}) {
    NumpyRandom random(seed);
    EXPECT_EQ(words(random, 5), expected) << seed;
  }
  NumpyRandom random(98765);
  const Numbers users = random.permutation(136677);  // those of MovieLens-20M
  EXPECT_EQ(Numbers(users.begin(), users.begin() + 8),
            (Numbers{104323, 11053, 111295, 50587, 126873, 109564, 129424, 1596}));
  EXPECT_EQ(test::crc32(users), 0x6d0f6e4du);
  EXPECT_EQ(words(random, 3), (Words{1109596588, 2106713537, 176623633}));
}

TEST(NumpyRandom, ChoicesOfAllSizes) {
  NumpyRandom random(98765);
  EXPECT_EQ(random.choice(5, 1), Numbers{4});
  EXPECT_EQ(random.choice(9, 1), Numbers{7});
  EXPECT_EQ(random.choice(10, 2), (Numbers{4, 1}));
  random = NumpyRandom(98765);
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
