#include "models/linear/dense_scores.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace vaecf::models {
namespace {

// 150 items: two tiles and a remainder; users with no item, fewer and more items than are fetched ahead, and
// values; one user of a call, and so many that tiles are used.
TEST(DenseScores, AreSumsInTheOrderOfItemsForAnyUsersOfACall) {
  constexpr std::int64_t items = 150;
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> matrix(items * items);
  for (float& weight : matrix) weight = uniform(random);
  std::vector<std::vector<std::int32_t>> columns;
  for (const int step : {1000, 70, 16, 3, 1, 7, 5, 2}) {
    auto& row = columns.emplace_back();
    for (int item = step / 2; item < items; item += step) row.push_back(item);
  }
  std::vector<float> values(items);
  for (float& value : values) value = uniform(random) + 2.0F;
  std::vector<SparseRow> users(columns.begin(), columns.end());
  users.emplace_back(columns[3], std::span(values).first(columns[3].size()));
  const auto row_of = [&](std::int64_t item) { return &matrix[item * items]; };

  std::vector<float> scores(users.size() * items, 9.0F);
  dense_scores(users, row_of, items, scores);
  std::vector<float> alone(items);
  for (std::size_t u = 0; u < users.size(); ++u) {
    dense_scores(std::span(users).subspan(u, 1), row_of, items, alone);
    for (std::int64_t j = 0; j < items; ++j) {
      float sum = 0.0F;
      for (std::size_t n = 0; n < users[u].columns.size(); ++n) {
        const float product = users[u].value(n) * matrix[users[u].columns[n] * items + j];
        sum += product;
      }
      ASSERT_EQ(scores[u * items + j], sum) << u << " " << j;
      ASSERT_EQ(alone[j], sum) << u << " " << j;
    }
  }
}

}  // namespace
}  // namespace vaecf::models
