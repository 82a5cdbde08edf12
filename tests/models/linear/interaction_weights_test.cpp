// Item models of interactions with weights: the values of X.
#include "models/linear/item_models_fixture.hpp"
#include "run/baselines.hpp"

namespace vaecf::training {
namespace {

/// Returns log(1 + plays) of six users, divided by the mean of each row.
Csr make_plays() {
  const std::vector<std::vector<std::pair<std::int32_t, double>>> plays = {
      {{0, 9}, {1, 1}, {4, 4}}, {{0, 2}, {2, 7}},         {{1, 1}, {2, 1}, {3, 5}},
      {{0, 3}, {1, 6}, {2, 1}}, {{2, 2}, {3, 2}, {4, 8}}, {{0, 1}, {3, 1}}};
  Csr rows;
  for (const auto& row : plays) {
    double sum = 0.0;
    for (const auto& [item, count] : row) sum += std::log1p(count);
    for (const auto& [item, count] : row) {
      rows.columns.push_back(item);
      rows.values.push_back(static_cast<float>(std::log1p(count) * static_cast<double>(row.size()) / sum));
    }
    rows.offsets.push_back(std::ssize(rows.columns));
  }
  return rows;
}

constexpr Weights ease_of_plays = {{{0, .28817364, .10906424, .01135392, .20197208},
                                    {.39949623, 0, .14004128, .14853667, -.05529790},
                                    {.13980333, .12948896, 0, .26617914, .14192504},
                                    {.01076956, .10163136, .19696606, 0, .11634706},
                                    {.22697665, -.04482704, .12442675, .13784556, 0}}};
constexpr Weights rdlae_of_plays = {{{0, .12812371, .06795084, .03012654, .08698442},
                                     {.19259692, 0, .07357386, .07342363, -.00802569},
                                     {.08843708, .06370056, 0, .11891006, .06776447},
                                     {.03016775, .04891135, .09148979, 0, .05561616},
                                     {.10868388, -.00667092, .06505582, .06939546, 0}}};
constexpr Weights knn_of_plays = {{{0, .60073362, .38116220, .21712754, .39242100},
                                   {.60073362, 0, .41306055, .31816949, .15641574},
                                   {.38116220, .41306055, 0, .46052921, .35669805},
                                   {.21712754, .31816949, .46052921, 0, .29228567},
                                   {.39242100, .15641574, .35669805, .29228567, 0}}};

TEST_F(ItemModels, WeightsOfModelsOfPlaysEqualTheReference) {
  const models::Interactions plays = models::make_interactions(make_plays(), 5);
  EXPECT_NEAR(plays.users.values[0], 1.5, 1e-7);
  EXPECT_NEAR(plays.users.values[1], .45154499, 1e-7);
  EXPECT_NEAR(plays.users.values[2], 1.04845501, 1e-7);
  for (const int ranks : {1, 3}) {
    on_ranks(ranks, [&](const run::Run& run) {
      for (const std::int64_t neighbors : {0, 4}) {
        SCOPED_TRACE(neighbors);
        expect_weights(*models::solve_ease(plays, {.l2 = 2.0, .neighbors = neighbors}, run, 2), ease_of_plays,
                       1e-6);
        const models::EaseValues rdlae{
            .l2 = 2.0, .dropout = 0.25, .neighbors = neighbors, .user_power = 0.5, .relax = 0.4};
        expect_weights(*models::solve_ease(plays, rdlae, run, 2), rdlae_of_plays, 1e-6);
      }
      for (const auto per : {models::NeighborsPer::source, models::NeighborsPer::target})
        expect_weights(
            *models::solve_item_knn(plays, {.neighbors = 0, .source_power = 0.5, .per = per}, run, 2),
            knn_of_plays, 1e-6);
    });
  }
}

/// Returns the similarities of item-kNN with shrink 2 and powers of their own, (items, items), in fp64.
std::vector<std::vector<double>> similarities_in_fp64(const models::Interactions& train, double user_power) {
  ReferenceGram together(train, {.user_power = user_power});
  const ReferenceGram unweighted(train, {});
  const std::size_t items = together.g.size();
  for (std::size_t i = 0; i < items; ++i) {
    for (std::size_t j = 0; j < items; ++j) {
      const double divisor = std::pow(unweighted.g[i][i], 0.7) * std::pow(unweighted.g[j][j], 0.2) + 2.0;
      together.g[i][j] = i == j ? 0.0 : std::pow(together.g[i][j] / (divisor + 1e-6), 0.6);
    }
  }
  return together.g;
}

TEST_F(ItemModels, ItemKnnOfValuesEqualsFp64OnAnyNumberOfRanks) {
  constexpr std::int32_t items = 50;
  const models::Interactions train = models::make_interactions(with_values(make_users(120, items)), items);
  for (const double user_power : {0.0, 0.8}) {
    const auto similarities = similarities_in_fp64(train, user_power);
    for (const std::size_t neighbors : {std::size_t{0}, std::size_t{6}}) {
      for (const auto per : {models::NeighborsPer::source, models::NeighborsPer::target}) {
        const bool source = per == models::NeighborsPer::source;
        std::vector<double> expected(items * items, 0.0);
        for (std::size_t own = 0; own < items; ++own) {
          std::vector<std::pair<double, std::size_t>> order;  // by descending similarity, then by item
          for (std::size_t other = 0; other < items; ++other)
            order.emplace_back(-(source ? similarities[own][other] : similarities[other][own]), other);
          std::ranges::sort(order);
          if (neighbors > 0) order.resize(neighbors);
          for (const auto& [negative, other] : order)
            expected[source ? own * items + other : other * items + own] = -negative;
        }
        std::vector<float> of_one_rank;
        for (const int ranks : {1, 2, 3, 4}) {
          on_ranks(ranks, [&](const run::Run& run) {
            const std::vector<float> found =
                matrix_of(models::solve_item_knn(train,
                                                 {.neighbors = static_cast<std::int64_t>(neighbors),
                                                  .shrink = 2.0,
                                                  .source_power = 0.7,
                                                  .target_power = 0.2,
                                                  .user_power = user_power,
                                                  .power = 0.6,
                                                  .per = per},
                                                 run, 1 + ranks % 3)
                              ->stored(),
                          items);
            if (ranks == 1) of_one_rank = found;
            EXPECT_EQ(found, of_one_rank) << ranks;
            for (std::size_t k = 0; k < found.size() && ranks == 1; ++k)
              EXPECT_NEAR(found[k], expected[k], 1e-6) << k / items << " to " << k % items << source;
          });
        }
      }
    }
  }
}

TEST_F(ItemModels, ValuesOfOneChangeNoBit) {
  constexpr std::int32_t items = 60;
  const Csr users = make_users(100, items);
  Csr valued = users;
  valued.values.assign(valued.columns.size(), 1.0F);
  const models::Interactions expected = models::make_interactions(users, items);
  const models::Interactions ones = models::make_interactions(valued, items);
  on_ranks(2, [&](const run::Run& run) {
    for (const std::int64_t neighbors : {0, 20}) {
      const models::EaseValues values{
          .l2 = 2.0, .dropout = 0.3, .neighbors = neighbors, .user_power = 0.5, .relax = 0.4};
      EXPECT_EQ(matrix_of(models::solve_ease(ones, values, run, 1)->stored(), items),
                matrix_of(models::solve_ease(expected, values, run, 1)->stored(), items));
    }
    EXPECT_EQ(models::solve_item_knn(ones, {.neighbors = 9}, run, 1)->data,
              models::solve_item_knn(expected, {.neighbors = 9}, run, 1)->data);
  });
}

// Products of such values are 0 in fp32.
TEST_F(ItemModels, ValuesWhoseProductsVanishMakeNoNeighbors) {
  Csr users = make_users(60, 20);
  users.values.assign(users.columns.size(), 1e-30F);
  const models::Interactions train = models::make_interactions(users, 20);
  on_ranks(1, [&](const run::Run& run) {
    EXPECT_TRUE(models::solve_item_knn(train, {.neighbors = 5}, run, 1)->data.empty());
    const auto model = models::solve_ease(train, {.l2 = 1.0, .neighbors = 5}, run, 1);
    EXPECT_TRUE(std::get<models::SparseWeights>(model->solution()).data.empty());
  });
}

TEST_F(ItemModels, PopularityAndItsMetricsCountPairsWhateverTheirWeights) {
  options_.validation.baselines = {"popularity"};
  options_.validation.metrics = {"ndcg@10",           "recall@5",     "novelty@5",
                                 "mean_popularity@5", "tail_share@5", "gini@5"};
  config::TrainingConfig weighted = options_;
  weighted.data.file = file("weighted.h5");
  write_weighted(options_.data.file, weighted.data.file);
  on_ranks(2, [&](const run::Run& run) {
    const run::Run other = run_of(run, weighted);
    ASSERT_TRUE(other.dataset.weighted());
    EXPECT_EQ(models::count_train_users(other, other.dataset).of_item,
              models::count_train_users(run, run.dataset).of_item);
    evaluate::Evaluator evaluator(run, run.dataset, "test", options_.validation.metrics);
    evaluate::Evaluator of_weighted(other, other.dataset, "test", options_.validation.metrics);
    const auto expected = run::evaluate_baselines(run, evaluator).at(0).result.metrics;
    const auto found = run::evaluate_baselines(other, of_weighted).at(0).result.metrics;
    for (const auto& [name, value] : expected) EXPECT_EQ(found.at(name).mean, value.mean) << name;
  });
}

TEST_F(ItemModels, InteractionsOfADatasetHaveItsWeights) {
  write_weighted(options_.data.file, file("weighted.h5"));
  options_.data.file = file("weighted.h5");
  on_ranks(1, [&](const run::Run& run) {
    const models::Interactions found = models::read_interactions(run, run.dataset);
    const Csr rows = run.dataset.read_rows("train", {0, run.dataset.rows("train")});
    EXPECT_EQ(found.users.values, rows.values);
    ASSERT_EQ(found.items.values.size(), rows.values.size());
    const CsrView items = found.items.view();
    for (std::int64_t item = 0; item < items.rows(); ++item) {
      for (std::int64_t n = 0; n < items.row_size(item); ++n) {
        const auto user = items.row(item)[static_cast<std::size_t>(n)];
        const auto row = rows.view().row(user);
        const auto k = std::ranges::lower_bound(row, item) - row.begin();
        EXPECT_EQ(items.row_values(item)[static_cast<std::size_t>(n)],
                  rows.view().row_values(user)[static_cast<std::size_t>(k)]);
      }
    }
  });
}

}  // namespace
}  // namespace vaecf::training
