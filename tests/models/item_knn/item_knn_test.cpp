#include "models/item_knn/solve.hpp"
#include "models/linear/item_models_fixture.hpp"

namespace vaecf::training {
namespace {

TEST_F(ItemModels, ItemKnnSimilaritiesEqualTheReference) {
  on_ranks(2, [&](const run::Run& run) {
    const std::vector<float> found =
        matrix_of(models::solve_item_knn(train_, {.neighbors = 5, .shrink = 1.0}, run, 2)->stored(), 5);
    const std::array rows = {0.,        .44801838, .39999992, .22400919, .26120381,
                             .44801838, 0.,        .44801838, .24999994, .28989786};
    for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_NEAR(found[i], rows[i], 1e-6) << i;
  });
}

TEST_F(ItemModels, ItemKnnOfAllItemsWithPowersEqualsTheReference) {
  constexpr Weights similarities = {{{0, .32193515, .35946182, .27858906, .22199999},
                                     {.32193515, 0, .32193515, .214798, .24062226},
                                     {.35946182, .32193515, 0, .32193515, .22199999},
                                     {.27858906, .214798, .32193515, 0, .24062226},
                                     {.22199999, .24062226, .22199999, .24062226, 0}}};
  std::vector<float> expected;
  for (const int ranks : {1, 2, 3, 4}) {
    on_ranks(ranks, [&](const run::Run& run) {
      for (const auto per : {models::NeighborsPer::source, models::NeighborsPer::target}) {
        const auto model = models::solve_item_knn(train_,
                                                  {.neighbors = 0,
                                                   .source_power = 0.4,
                                                   .target_power = 0.4,
                                                   .user_power = 1.2,
                                                   .power = 0.7,
                                                   .per = per},
                                                  run, 1 + ranks % 2);
        expect_weights(*model, similarities, 1e-6);
        EXPECT_EQ(std::ssize(model->data), models::item_knn_entries(train_, 0, 2));
        if (expected.empty()) expected = model->data;
        EXPECT_EQ(model->data, expected);
      }
    });
  }
  EXPECT_EQ(models::item_knn_entries(train_, 0, 1), 20)
      << "each item has a user in common with each other one";
  EXPECT_EQ(models::item_knn_entries(train_, 3, 1), 15);
}

TEST_F(ItemModels, ItemKnnHasSeparatePowersOfSourceAndTarget) {
  const models::Interactions train = models::make_interactions(item_model_users, 5);
  std::array<std::array<double, 5>, 5> together{};  // on the diagonal the users of an item
  for (std::int64_t user = 0; user < train.users.rows(); ++user)
    for (const std::int32_t i : train.users.view().row(user))
      for (const std::int32_t j : train.users.view().row(user))
        ++together[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
  on_ranks(2, [&](const run::Run& run) {
    for (const auto per : {models::NeighborsPer::source, models::NeighborsPer::target}) {
      const auto model = models::solve_item_knn(
          train, {.neighbors = 0, .source_power = 0.9, .target_power = 0.2, .per = per}, run, 1);
      for (std::size_t i = 0; i < 5; ++i) {
        std::array<float, 5> scores{};
        model->score(std::array{static_cast<std::int32_t>(i)}, scores);
        for (std::size_t j = 0; j < 5; ++j) {
          const double divisor = std::pow(together[i][i], 0.9) * std::pow(together[j][j], 0.2);
          EXPECT_NEAR(scores[j], i == j ? 0.0 : together[i][j] / divisor, 1e-5) << i << " to " << j;
        }
      }
    }
  });
}

TEST_F(ItemModels, PowerDoesNotChangeTheNeighborsOfItemKnn) {
  on_ranks(1, [&](const run::Run& run) {
    const auto plain = models::solve_item_knn(train_, {.neighbors = 2, .user_power = 0.5}, run, 1);
    const auto raised =
        models::solve_item_knn(train_, {.neighbors = 2, .user_power = 0.5, .power = 0.3}, run, 1);
    EXPECT_EQ(raised->indices, plain->indices);
    for (std::size_t k = 0; k < plain->data.size(); ++k)
      EXPECT_NEAR(raised->data[k], std::pow(plain->data[k], 0.3), 1e-6);
  });
}

TEST_F(ItemModels, ItemKnnKeepsTheNearestNeighborsOfTheGivenSide) {
  on_ranks(3, [&](const run::Run& run) {
    for (const auto per : {models::NeighborsPer::source, models::NeighborsPer::target}) {
      const auto matrix = [&](std::int64_t neighbors) {
        return matrix_of(
            models::solve_item_knn(train_, {.neighbors = neighbors, .source_power = 0.8, .per = per}, run, 1)
                ->stored(),
            5);
      };
      const std::vector<float> similarities = matrix(5), kept = matrix(1);
      const bool source = per == models::NeighborsPer::source;
      for (std::size_t i = 0; i < 5; ++i) {
        std::size_t best = i == 0 ? 1 : 0;
        const auto at = [&](const auto& m, std::size_t j) { return source ? m[i * 5 + j] : m[j * 5 + i]; };
        for (std::size_t j = 0; j < 5; ++j)
          if (j != i && at(similarities, j) > at(similarities, best)) best = j;
        for (std::size_t j = 0; j < 5; ++j)
          EXPECT_EQ(at(kept, j), j == best ? at(similarities, j) : 0.0F) << source << i << j;
      }
    }
  });
}

TEST_F(ItemModels, RequestToStopEndsItemKnnOnAllRanks) {
  StopFlag flag;
  on_ranks(3, [&](const run::Run& run) {
    const bool first = run.communicator.rank() == 0;
    StopsAfter stops(flag, first ? 1 : 0, "item-kNN");
    const run::Run stopping = with(run, stops, first ? &flag : nullptr);
    EXPECT_FALSE(models::solve_item_knn(train_, {}, stopping, 1));
  });
}

}  // namespace
}  // namespace vaecf::training
