
#include "models/linear/item_scorer.hpp"

#include <array>

#include "support/train_fixture.hpp"

namespace vaecf::training {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Gives item j the score w_j for a user without items, and w_j minus the number of items for other users.
class FixedScores : public models::ItemModel {
 public:
  explicit FixedScores(std::vector<float> weights) : weights_(std::move(weights)) {}
  void score(const SparseRow& history, std::span<float> scores) const override {
    for (std::size_t j = 0; j < scores.size(); ++j)
      scores[j] = weights_[j] - static_cast<float>(history.columns.size());
  }
  models::StoredWeights stored() const override { return {}; }

 private:
  std::vector<float> weights_;
};

const Csr seen{{0, 2, 2, 8}, {0, 5, 0, 1, 2, 3, 4, 5}};
const Csr targets{{0, 3, 4, 4}, {1, 4, 5, 2}};

models::ItemScorer make_scorer() {
  return {std::make_shared<FixedScores>(std::vector<float>{9, 2, 4, 4, 1, std::nanf("")}), 6, 2};
}

TEST(ItemScorer, ListsLeaveOutSeenItemsAndBreakTiesByIndex) {
  models::ItemScorer scorer = make_scorer();
  const auto users = scorer.load_users({seen.view(), {}, {}, 0});
  std::vector<std::int32_t> items(12);
  std::vector<float> scores(12);
  scorer.top_k(*users, {0, 3}, models::History::items, false, 4, items, scores);
  EXPECT_EQ(items, (std::vector<std::int32_t>{2, 3, 1, 4, 0, 2, 3, 1, -1, -1, -1, -1}));
  EXPECT_EQ(scores,
            (std::vector<float>{2, 2, 0, -1, 9, 4, 4, 2, -infinity, -infinity, -infinity, -infinity}));

  scorer.top_k(*users, {0, 1}, models::History::none, true, 4, std::span(items).first(4),
               std::span(scores).first(4));
  EXPECT_EQ(std::vector(items.begin(), items.begin() + 4), (std::vector<std::int32_t>{0, 2, 3, 1}));
  EXPECT_EQ(scores[0], 9.0F);

  scorer.restrict_to(std::array<std::uint8_t, 6>{1, 1, 0, 1, 1, 1});
  scorer.top_k(*users, {0, 1}, models::History::items, true, 6, std::span(items).first(6),
               std::span(scores).first(6));
  EXPECT_EQ(std::vector(items.begin(), items.begin() + 6), (std::vector<std::int32_t>{0, 3, 1, 4, -1, -1}));
}

TEST(ItemScorer, RanksOfTargetsAreThoseAmongItemsThatTheUserLacks) {
  models::ItemScorer scorer = make_scorer();
  const auto users = scorer.load_users({seen.view(), {}, targets.view(), 0});
  std::vector<std::int64_t> done;
  const std::vector<std::int32_t> ranks =
      scorer.rank_targets(*users, models::History::items, [&](std::int64_t count) { done.push_back(count); });
  EXPECT_EQ(done, (std::vector<std::int64_t>{3}));
  // User 0: targets 1 and 4 have ranks 2 and 3, target 5 was seen. User 1: target 2 has rank 1.
  EXPECT_EQ(ranks, (std::vector<std::int32_t>{2, 3, 6, 1}));
}

}  // namespace
}  // namespace vaecf::training
