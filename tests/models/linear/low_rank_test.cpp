// The low-rank term, against vectors of an independent computation for item_model_users.
#include "models/linear/low_rank.hpp"

#include "models/ease/ease_model.hpp"
#include "models/item_knn/solve.hpp"
#include "models/linear/item_models_fixture.hpp"
#include "models/linear/low_rank_search.hpp"

namespace vaecf::training {
namespace {

using LowRank = ItemModels;

constexpr std::array<double, 5> users_of = {4, 3, 4, 3, 2};
constexpr Weights products = {{{.52268902, .38796137, .27777602, -.14713498, -.01276584},
                               {.38796137, .29530347, .23397071, -.04114188, .03391699},
                               {.27777602, .23397071, .25282926, .17946595, .15746995},
                               {-.14713498, -.04114188, .17946595, .67242974, .40585539},
                               {-.01276584, .03391699, .15746995, .40585539, .25674851}}};
constexpr Weights ease_k = {{{0, 0, 0, 0, 0},
                             {.30163528, 0, .28189496, 0, .14094748},
                             {0, .23661150, 0, .23661150, 0},
                             {0, 0, .26639395, 0, .13319697},
                             {.14499434, .15849456, 0, .15849456, 0}}};
constexpr Weights ease_k_with_term = {{{0, .10373713, .08333281, -.03934248, -.00290241},
                                       {.43221785, 0, .36064635, -.01234256, .14959919},
                                       {.08333281, .29917301, 0, .28459897, .03580197},
                                       {-.04952365, -.01234256, .32679977, 0, .23672456},
                                       {.13994095, .17046128, .06233485, .30168996, 0}}};

/// Returns Q Q' (items, items) in fp64.
std::vector<double> projection(const models::LowRankBasis& basis) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < basis.items; ++i)
    for (std::int64_t j = 0; j < basis.items; ++j) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < basis.stride; ++k)
        sum += static_cast<double>(basis.row(i).data[k]) * static_cast<double>(basis.row(j).data[k]);
      all.push_back(sum);
    }
  return all;
}

/// EASE of given values as a search of one solution.
class OneEase final : public models::Search {
 public:
  explicit OneEase(const models::EaseValues& values) : values_(values) {}
  std::int64_t size() const override { return 1; }
  std::int64_t computed(std::int64_t done) const override { return 1 - done; }
  std::string unit() const override { return "solutions"; }
  std::shared_ptr<const models::ItemModel> solve(std::int64_t /*n*/, const models::Interactions& train,
                                                 const Context& context, int threads) override {
    return models::solve_ease(train, values_, context, threads);
  }
  std::string title(std::int64_t /*n*/) const override { return "EASE"; }
  Values values(std::int64_t /*n*/) const override { return {}; }

 private:
  models::EaseValues values_;
};

std::shared_ptr<const models::ItemModel> solve(const models::Interactions& train,
                                               const models::EaseValues& values,
                                               const models::LowRankOptions& options, const run::Run& run,
                                               int threads = 2) {
  const auto search =
      models::with_low_rank(std::make_unique<OneEase>(values), values.neighbors == 0, options, false);
  return search->solve(0, train, run, threads);
}

const models::EaseValues neighbors_2{.l2 = 2.0, .dropout = 0.25, .neighbors = 2, .user_power = 0.5};
const models::LowRankOptions of_vectors{.factors = {2}, .weight = {0.3}, .power = {0.4}, .iterations = 140};

TEST_F(LowRank, BasisSpansTheLeadingSingularVectors) {
  on_ranks(1, [&](const run::Run& run) {
    const auto of = [&](std::int64_t factors, std::int64_t iterations) {
      return projection(*models::make_low_rank_basis(train_, factors, iterations, run, 2));
    };
    const std::vector<double> one = of(1, 30), two = of(2, 140), five = of(5, 8), more = of(300, 8);
    for (std::size_t i = 0; i < 5; ++i)
      for (std::size_t j = 0; j < 5; ++j) {
        EXPECT_NEAR(one[i * 5 + j], std::sqrt(users_of[i] * users_of[j]) / 16.0, 1e-6) << i << j;
        EXPECT_NEAR(two[i * 5 + j], products[i][j], 1e-6) << i << j;
        EXPECT_NEAR(five[i * 5 + j], i == j ? 1.0 : 0.0, 1e-6) << i << j;
        EXPECT_NEAR(more[i * 5 + j], i == j ? 1.0 : 0.0, 1e-6) << i << j;
      }
  });
}

TEST_F(LowRank, BasisOfManyItemsHasTheSameBitsOnAnyNumberOfRanksAndThreads) {
  const models::Interactions train = models::make_interactions(make_many_users(), many);
  std::vector<float> expected;
  for (const int ranks : {1, 2, 3, 4}) {
    on_ranks(ranks, [&](const run::Run& run) {
      for (const int threads : {1, 3}) {
        const auto basis = models::make_low_rank_basis(train, 70, 3, run, threads);
        const std::vector<float> values(basis->values.data(), basis->values.data() + basis->values.size());
        if (!expected.empty()) {  // of a single rank
          EXPECT_TRUE(values == expected) << ranks << ", " << threads;
          continue;
        }
        expected = values;
        const std::vector<double> all = projection(*basis);
        double trace = 0.0;
        for (std::size_t i = 0; i < many; ++i) trace += all[i * many + i];
        EXPECT_NEAR(trace, 70.0, 1e-4);
        EXPECT_EQ(all.back(), 0.0) << "the last item has no users";
      }
    });
  }
}

// Two users who have the same items, a user without items, and an item without users.
TEST_F(LowRank, BasisHasNoMoreColumnsThanTheRank) {
  const models::Interactions train = models::make_interactions({{0, 2, 2, 4}, {0, 2, 0, 2}}, 4);
  const models::Interactions none = models::make_interactions({{0, 0}, {}}, 3);
  on_ranks(2, [&](const run::Run& run) {
    const std::vector<double> found = projection(*models::make_low_rank_basis(train, 256, 8, run, 2));
    for (std::size_t i = 0; i < 4; ++i)
      for (std::size_t j = 0; j < 4; ++j)
        EXPECT_NEAR(found[i * 4 + j], i % 2 == 0 && j % 2 == 0 ? 0.5 : 0.0, 1e-6) << i << j;
    EXPECT_EQ(projection(*models::make_low_rank_basis(none, 256, 8, run, 2)), std::vector<double>(9, 0.0));
  });
}

TEST_F(LowRank, WeightsWithNeighborsEqualTheReferenceStoredOrFolded) {
  on_ranks(3, [&](const run::Run& run) {
    expect_weights(*models::solve_ease(train_, neighbors_2, run, 2), ease_k, 1e-6);
    const auto stored = solve(train_, neighbors_2, of_vectors, run);
    EXPECT_EQ(stored->stored().tensors.at(0).columns, 2);
    expect_rows(*stored);
    std::vector<float> row(5), base(5);
    stored->read_row(0, row);
    EXPECT_TRUE(std::ranges::all_of(row, [](float value) { return std::isfinite(value); }));
    models::solve_ease(train_, neighbors_2, run, 2)->read_row(0, base);
    EXPECT_TRUE(std::ranges::all_of(base, [](float value) { return std::isinf(value); }))
        << "item 0 has no weight for another";
    models::LowRankOptions all = of_vectors;
    all.keep = 5;
    const auto folded = solve(train_, neighbors_2, all, run);
    expect_weights(*folded, ease_k_with_term, 1e-6);
    for (std::int32_t i = 0; i < 5; ++i) {
      const std::vector<float> scores = scores_of(*stored, i, 5);
      for (std::int32_t j = 0; j < 5; ++j) {
        const double expected = ease_k_with_term[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
        EXPECT_NEAR(stored->weight(i, j), expected, 1e-6) << i << j;
        EXPECT_NEAR(scores[static_cast<std::size_t>(j)], expected, 1e-6) << i << j;
      }
    }
  });
}

TEST_F(LowRank, LargestWeightsOfEachColumnAreKept) {
  on_ranks(2, [&](const run::Run& run) {
    models::LowRankOptions some = of_vectors;
    some.keep = 2;
    const std::vector<float> found = matrix_of(solve(train_, neighbors_2, some, run)->stored(), 5);
    for (std::size_t j = 0; j < 5; ++j) {
      std::vector<double> column;
      for (std::size_t i = 0; i < 5; ++i)
        if (i != j) column.push_back(ease_k_with_term[i][j]);
      std::ranges::sort(column, std::greater());
      for (std::size_t i = 0; i < 5; ++i) {
        const bool kept = i != j && ease_k_with_term[i][j] >= column[1];
        EXPECT_NEAR(found[i * 5 + j], kept ? ease_k_with_term[i][j] : 0.0, 1e-6) << i << j;
      }
    }
  });
}

TEST_F(LowRank, DenseWeightsContainTheTermAndTheirSolutionIsReused) {
  on_ranks(2, [&](const run::Run& run) {
    const models::EaseValues values{.l2 = 2.0, .dropout = 0.25};
    const std::vector<float> without = matrix_of(models::solve_ease(train_, values, run, 1)->stored(), 5);
    Weights expected{};
    for (std::size_t i = 0; i < 5; ++i)
      for (std::size_t j = 0; j < 5; ++j)
        if (i != j)
          expected[i][j] =
              without[i * 5 + j] + 0.3 * std::pow(users_of[j] / users_of[i], 0.4) * products[i][j];
    const auto model = solve(train_, values, of_vectors, run);
    EXPECT_TRUE(model->is_dense());
    const std::vector<float> found = matrix_of(model->stored(), 5);
    for (std::size_t i = 0; i < 5; ++i) {
      const std::vector<float> scores = scores_of(*model, static_cast<std::int32_t>(i), 5);
      for (std::size_t j = 0; j < 5; ++j) {
        EXPECT_NEAR(found[i * 5 + j], expected[i][j], 1e-6) << i << j;
        EXPECT_NEAR(scores[j], expected[i][j], 1e-6) << i << j;
      }
      EXPECT_EQ(found[i * 5 + i], 0.0F);
    }
  });
}

TEST_F(LowRank, UsersScoredTogetherHaveTheScoresOfEachAlone) {
  const Csr users = with_values(make_many_users());
  const models::Interactions train = models::make_interactions(users, many);
  const models::EaseValues values{.l2 = 20.0, .dropout = 0.3, .neighbors = 9};
  const models::LowRankOptions options{.factors = {30}, .weight = {0.5}, .power = {0.2}, .iterations = 2};
  std::vector<float> expected;
  for (const int ranks : {1, 2}) {
    on_ranks(ranks, [&](const run::Run& run) {
      const auto model = solve(train, values, options, run);
      std::vector<SparseRow> some;
      for (std::int64_t u = 0; u < 70; ++u) some.push_back(users.view().sparse_row(u));
      std::vector<float> scores(some.size() * many);
      model->score_all(some, scores);
      std::vector<float> alone(many);
      for (std::size_t u = 0; u < some.size(); ++u) {
        model->score(some[u], alone);
        EXPECT_TRUE(std::ranges::equal(alone, std::span(scores).subspan(u * many, many))) << u;
        for (const std::int32_t j : {0, 7, 301, many - 1}) {  // the sum of all reasons
          double sum = 0.0;
          for (std::size_t k = 0; k < some[u].columns.size(); ++k)
            sum += static_cast<double>(some[u].value(k)) *
                   static_cast<double>(model->weight(some[u].columns[k], j));
          EXPECT_NEAR(alone[static_cast<std::size_t>(j)], sum, 2e-5) << u << ", " << j;
        }
      }
      if (expected.empty()) expected = scores;
      EXPECT_TRUE(scores == expected) << ranks;
    });
  }
}

}  // namespace
}  // namespace vaecf::training
