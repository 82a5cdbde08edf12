#include <vaecf/math/ranking.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

namespace vaecf::math {
namespace {

constexpr float masked = -std::numeric_limits<float>::infinity();

TEST(TopK, IsTheBeginOfAStableSortWithoutMaskedItems) {
  std::mt19937 random(3);
  for (const std::size_t size : {0, 1, 5, 31, 32, 33, 64, 100, 1000}) {
    for (const int levels : {1, 3, 100000}) {  // few levels: many ties
      std::vector<float> scores(size);
      for (float& score : scores)
        score = random() % 4 == 0 ? masked : static_cast<float>(random() % levels) - 1.0F;
      std::vector<std::int32_t> order;
      for (std::size_t j = 0; j < size; ++j)
        if (scores[j] != masked) order.push_back(static_cast<std::int32_t>(j));
      std::ranges::stable_sort(order, std::greater(), [&](std::int32_t j) { return scores[j]; });
      for (const std::int64_t k : {0, 1, 2, 10, 40, 2000}) {
        const std::size_t length = std::min<std::size_t>(k, order.size());
        EXPECT_EQ(top_k(scores, k), std::vector(order.begin(), order.begin() + length)) << size << " " << k;
      }
    }
  }
}

}  // namespace
}  // namespace vaecf::math
