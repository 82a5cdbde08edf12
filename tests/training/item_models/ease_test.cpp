#include "models/item/ease.hpp"

#include <random>

#include "training/item_models/item_models_fixture.hpp"

namespace vaecf::training {
namespace {

// Computed in NumPy from the papers' formulas, for item_model_users.
constexpr Weights ease = {{{0, .23168317, .18876404, .03177966, .08727273},
                           {.28676471, 0, .25168539, .04237288, .11636364},
                           {.20588235, .22178218, 0, .28177966, .05272727},
                           {.03676471, .03960396, .29887640, 0, .13818182},
                           {.11764706, .12673267, .06516854, .16101695, 0}}};
constexpr Weights edlae = {{{0, .19796476, .16681495, .03995253, .07717042},
                            {.24761344, 0, .22241993, .05327004, .10289389},
                            {.17678256, .18844813, 0, .22745253, .05498392},
                            {.04761344, .05075536, .25578292, 0, .11832797},
                            {.11314084, .12060680, .07606762, .14556962, 0}}};

constexpr Weights weighted = {{{0, .20552577, .20302776, .06414438, .07344914},
                               {.26587507, 0, .24420193, .04046519, .12014145},
                               {.22566967, .20982418, 0, .25443441, .05370399},
                               {.07499728, .03657271, .26763625, 0, .12698569},
                               {.10445199, .13207224, .06870982, .15445356, 0}}};
constexpr Weights rdlae = {{{0, .11877886, .10008897, .02397152, .04771016},
                            {.14856806, 0, .13345196, .03196203, .06361355},
                            {.10606953, .11306888, 0, .13647152, .03399349},
                            {.02856806, .03045322, .15346975, 0, .07315558},
                            {.0678845, .07236408, .04564057, .08734177, 0}}};
constexpr Weights weighted_rdlae = {{{0, .10546044, .10610128, .03861547, .04151525},
                                     {.13987020, 0, .13051734, .03084135, .06641968},
                                     {.11559453, .10721345, 0, .12438695, .03417477},
                                     {.04682176, .02819578, .13843455, 0, .06867340},
                                     {.06181122, .07456256, .04670341, .08432607, 0}}};
constexpr Weights deql = {{{0, .17093345, .14141847, .03393262, .06738066},
                           {.20567701, 0, .18855796, .04524349, .08984088},
                           {.14684222, .16271628, 0, .19318074, .04800872},
                           {.03954951, .04382492, .21684165, 0, .10331701},
                           {.09397902, .10413842, .06448682, .12363567, 0}}};
constexpr Weights weighted_deql = {{{0, .05631613, .05363145, .02245856, .02415369},
                                    {.06647374, 0, .06758919, .02125999, .03772847},
                                    {.05374484, .05738219, 0, .05897731, .02193596},
                                    {.02635466, .02113592, .06906266, 0, .03796096},
                                    {.03384594, .04478936, .03067343, .04532988, 0}}};

TEST_F(ItemModels, WeightsOfEaseEqualTheReferenceForEveryKey) {
  const std::vector<std::pair<models::EaseValues, Weights>> references = {
      {{.l2 = 2.0}, ease},
      {{.l2 = 2.0, .dropout = 0.25}, edlae},
      {{.l2 = 2.0, .user_power = 0.5}, weighted},
      {{.l2 = 2.0, .dropout = 0.25, .relax = 0.4}, rdlae},
      {{.l2 = 2.0, .dropout = 0.25, .user_power = 0.5, .relax = 0.4}, weighted_rdlae},
      {{.l2 = 2.0, .dropout = 0.25, .kept_weight = 0.2}, deql},
      {{.l2 = 2.0, .dropout = 0.5, .user_power = 0.5, .kept_weight = 4.0}, weighted_deql}};
  on_ranks(3, [&](const run::Run& run) {
    const models::Interactions train = models::make_interactions(item_model_users, 5);
    for (const auto& [values, weights] : references) {
      SCOPED_TRACE(models::ease_title(values));
      const auto model = models::solve_ease(train, values, run, 2);
      expect_scores(*model, weights, 1e-6);
      const std::vector<float> stored = stored_matrix(*model);
      for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(stored[i * 5 + i], 0.0F);
        for (std::size_t j = 0; j < 5; ++j) EXPECT_NEAR(stored[i * 5 + j], weights[i][j], 1e-6) << i << j;
      }
    }
  });
}

TEST_F(ItemModels, ColumnsOfOneInverseEqualThoseOfSeparateSolutions) {
  on_ranks(1, [](const run::Run& run) {
    const models::Interactions train = models::make_interactions(item_model_users, 5);
    models::EaseValues values{.l2 = 2.0, .dropout = 0.25, .user_power = 0.5};
    const auto model = models::solve_ease(train, values, run, 1);
    for (const auto& [relax, kept] :
         std::vector<std::pair<double, double>>{{0.4, 0}, {0, 4}, {1, 0}, {0, 0}}) {
      values.relax = relax;
      values.kept_weight = kept;
      model->set_columns(relax, kept);
      EXPECT_EQ(stored_matrix(*model), stored_matrix(*models::solve_ease(train, values, run, 1)))
          << relax << kept;
    }
    model->set_columns(1.0, 0.0);
    const std::vector<float> unlimited = stored_matrix(*model);
    model->set_columns(0.0, 1.0);
    for (std::size_t k = 0; k < unlimited.size(); ++k)
      EXPECT_NEAR(stored_matrix(*model)[k], unlimited[k], 1e-7) << k;
  });
}

constexpr std::int32_t many = 600;  // items: three blocks, the last one with padding

/// Makes users with 3 to 90 of the items, and one without; the last item has no user.
Csr make_many_users() {
  std::mt19937 random(11);
  const auto below = [&](std::uint32_t bound) { return static_cast<std::int32_t>(random() % bound); };
  Csr users;
  for (std::int32_t user = 0; user < 900; ++user) {
    const std::int32_t step = 5 + below(100);
    for (std::int32_t item = below(300); item + 1 < many && user != 5;
         item += 1 + below(2) + below(9) * step / 9)
      users.columns.push_back(item);
    users.offsets.push_back(std::ssize(users.columns));
  }
  return users;
}

/// Computes P of the weighted matrix in fp64 by Gauss-Jordan sweeps.
std::vector<double> invert_in_fp64(const Csr& users, const models::EaseValues& values) {
  std::vector<double> a(static_cast<std::size_t>(many) * many, 0.0);
  double sum = 0.0, with_items = 0.0;
  for (std::int64_t u = 0; u < users.rows(); ++u) {
    const auto row = users.view().row(u);
    if (row.empty()) continue;
    const double w = std::pow(static_cast<double>(row.size()), -values.user_power);
    sum += w;
    ++with_items;
    for (const std::int32_t i : row)
      for (const std::int32_t j : row) a[static_cast<std::size_t>(i * many + j)] += w;
  }
  const double p = values.dropout;
  for (std::size_t i = 0; i < many; ++i)
    a[i * many + i] += values.l2 * sum / with_items + a[i * many + i] * p / (1.0 - p);
  for (std::size_t k = 0; k < many; ++k) {
    const double pivot = 1.0 / a[k * many + k];
    for (std::size_t i = 0; i < many; ++i) {
      if (i == k) continue;
      const double factor = a[i * many + k] * pivot;
      for (std::size_t j = 0; j < many; ++j) a[i * many + j] -= j == k ? 0.0 : factor * a[k * many + j];
      a[i * many + k] = -factor;
    }
    for (std::size_t j = 0; j < many; ++j) a[k * many + j] *= j == k ? 0.0 : pivot;
    a[k * many + k] = pivot;
  }
  return a;
}

TEST_F(ItemModels, WeightsOfSixHundredItemsEqualFp64OnAnyNumberOfRanksAndThreads) {
  const Csr users = make_many_users();
  const models::EaseValues values{.l2 = 20.0, .dropout = 0.3, .user_power = 0.5};
  const std::vector<double> inverse = invert_in_fp64(users, values);
  std::vector<float> expected;
  for (const int ranks : {1, 2, 3, 4}) {
    on_ranks(ranks, [&](const run::Run& run) {
      const auto model = models::solve_ease(models::make_interactions(users, many), values, run, 5 - ranks);
      const std::vector<float> found = stored_matrix(*model);
      if (ranks == 1) {
        expected = found;
        for (std::size_t i = 0; i < many; ++i) {
          for (std::size_t j = 0; j < many; ++j) {
            const double weight = i == j ? 0.0 : -inverse[i * many + j] / inverse[j * many + j];
            ASSERT_NEAR(found[i * many + j], weight, 1e-5) << i << ", " << j;
          }
        }
      }
      EXPECT_EQ(found, expected) << ranks;
    });
  }
}

TEST_F(ItemModels, EaseOfAnIndefiniteMatrixThrowsOnAllRanks) {
  on_ranks(2, [](const run::Run& run) {
    models::Interactions train =
        models::make_interactions(Csr{{0, 2}, {0, 1}}, 2);  // equal columns: X'X is singular
    for (const std::int64_t neighbors : {0, 1}) {
      const models::EaseValues values{.l2 = 1e-30, .neighbors = neighbors};
      EXPECT_NE(message_of<InputError>([&] {
                  models::solve_ease(train, values, run, 1);
                }).find("model.ease.l2: with 1e-30"),
                std::string::npos);
    }
  });
}

TEST_F(ItemModels, RequestToStopEndsASolutionOnAllRanks) {
  const Csr users = make_many_users();
  for (const std::int64_t neighbors : {0, 20}) {
    StopFlag flag;
    std::atomic<int> solved = 0;
    on_ranks(3, [&](run::RunContext run) {
      StopsAfter stops(flag, 2, "EASE");  // blocks or items of rank 0
      if (run.communicator.rank() == 0) {
        run::RunContext stopping{run.communicator, run.device, run.log, stops, &flag, run.grid};
        if (models::solve_ease(models::make_interactions(users, many), {.l2 = 20.0, .neighbors = neighbors},
                               stopping, 1))
          ++solved;
      } else if (models::solve_ease(models::make_interactions(users, many),
                                    {.l2 = 20.0, .neighbors = neighbors}, run, 1)) {
        ++solved;
      }
    });
    EXPECT_EQ(solved, 0) << neighbors;
  }
}

}  // namespace
}  // namespace vaecf::training
