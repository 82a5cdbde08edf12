#include <numeric>

#include "models/ease/ease_model.hpp"
#include "models/ease/gram.hpp"
#include "models/linear/item_models_fixture.hpp"

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
    for (const auto& [values, weights] : references) {
      SCOPED_TRACE(models::ease_title(values));
      expect_weights(*models::solve_ease(train_, values, run, 2), weights, 1e-6);
    }
  });
}

// Item 5 has no user.
TEST_F(ItemModels, WeightsWithFeaturesOfItemsEqualTheReference) {
  constexpr double weights[6][6] = {{0, .23423679, .13521455, .02941640, .08546573, .05875010},
                                    {.30164952, 0, .15944866, .00565443, .13812883, .08080665},
                                    {.14054836, .12869916, 0, .27987075, .11149919, -.04417417},
                                    {.03427247, .00511561, .31369750, 0, .18892766, -.02739769},
                                    {.10639527, .13352638, .13353639, .20186912, 0, .09592650},
                                    {.14798880, .15805921, -.10704990, -.05923499, .19410136, 0}};
  models::Interactions train = models::make_interactions(item_model_users, 6);
  train.features = Csr{{0, 1, 2, 3, 4, 6, 7}, {0, 0, 1, 1, 0, 1, 0}};
  models::EaseValues values{.l2 = 2.0, .dropout = 0.25, .user_power = 0.5, .feature_weight = 3.0};
  for (const int ranks : {1, 3}) {
    for (const std::int64_t neighbors : {0, 5}) {
      values.neighbors = neighbors;
      on_ranks(ranks, [&](const run::Run& run) {
        const std::vector<float> found = matrix_of(models::solve_ease(train, values, run, 2)->stored(), 6);
        for (std::size_t i = 0; i < 6; ++i)
          for (std::size_t j = 0; j < 6; ++j)
            EXPECT_NEAR(found[i * 6 + j], weights[i][j], 1e-6) << i << ", " << j << ", K " << neighbors;
      });
    }
  }
}

TEST_F(ItemModels, ColumnsOfOneInverseEqualThoseOfSeparateSolutions) {
  on_ranks(1, [&](const run::Run& run) {
    const auto solve = [&](const models::EaseValues& values) {
      return models::solve_ease(train_, values, run, 1);
    };
    const auto matrix = [](const models::ItemModel& model) { return matrix_of(model.stored(), 5); };
    models::EaseValues values{.l2 = 2.0, .dropout = 0.25, .user_power = 0.5};
    const auto model = solve(values);
    for (const auto& [relax, kept] :
         std::vector<std::pair<double, double>>{{0.4, 0}, {0, 4}, {1, 0}, {0, 0}}) {
      values.relax = relax;
      values.kept_weight = kept;
      model->set_columns(relax, kept);
      EXPECT_EQ(matrix(*model), matrix(*solve(values))) << relax << kept;
    }
    model->set_columns(1.0, 0.0);
    const std::vector<float> unlimited = matrix(*model);
    model->set_columns(0.0, 1.0);
    for (std::size_t k = 0; k < unlimited.size(); ++k)
      EXPECT_NEAR(matrix(*model)[k], unlimited[k], 1e-7) << k;
  });
}

TEST_F(ItemModels, WeightsOfManyItemsEqualFp64OnAnyNumberOfRanksAndThreads) {
  for (const Csr& users : {make_many_users(), with_values(make_many_users())}) {
    models::Interactions train = models::make_interactions(users, many);
    train.features = make_features(many);
    const models::EaseValues values{.l2 = 20.0, .dropout = 0.3, .user_power = 0.5, .feature_weight = 50.0};
    const auto inverse = invert_in_fp64(train, values);
    std::vector<float> expected;
    for (const int ranks : {1, 2, 3, 4}) {
      on_ranks(ranks, [&](const run::Run& run) {
        const auto model = models::solve_ease(train, values, run, 5 - ranks);
        const std::vector<float> found = matrix_of(model->stored(), many);
        if (ranks == 1) {
          expected = found;
          for (std::size_t i = 0; i < many; ++i)
            for (std::size_t j = 0; j < many; ++j)
              ASSERT_NEAR(found[i * many + j], i == j ? 0.0 : -inverse[i][j] / inverse[j][j], 1e-5)
                  << i << ", " << j << (users.values.empty() ? "" : ", with values");
        }
        EXPECT_EQ(found, expected) << ranks;
      });
    }
  }
}

TEST_F(ItemModels, EaseKWithAllNeighborsEqualsEaseForEveryKey) {
  constexpr std::int32_t items = 40;
  const auto compare = [](const run::Run& run, const models::Interactions& train, models::EaseValues values) {
    const auto all = models::solve_ease(train, values, run, 1);
    values.neighbors = items - 1;
    const auto neighborhoods = models::solve_ease(train, values, run, 2);
    for (std::int32_t i = 0; i < items; ++i) {
      const std::vector<float> expected = scores_of(*all, i, items),
                               found = scores_of(*neighborhoods, i, items);
      for (std::int32_t j = 0; j < items; ++j) EXPECT_NEAR(found[j], expected[j], 1e-6) << i << ", " << j;
    }
  };
  on_ranks(1, [&](const run::Run& run) {
    for (const Csr& users : {make_users(60, items), with_values(make_users(60, items))}) {
      models::Interactions train = models::make_interactions(users, items);
      train.features = make_features(items);
      for (const models::EaseValues& values : std::vector<models::EaseValues>{
               {.l2 = 3.0},
               {.l2 = 3.0, .dropout = 0.5},
               {.l2 = 3.0, .dropout = 0.3, .user_power = 0.7, .relax = 0.4},
               {.l2 = 3.0, .user_power = 0.5, .kept_weight = 4.0},
               {.l2 = 3.0, .dropout = 0.3, .relax = 0.4, .feature_weight = 20.0}}) {
        SCOPED_TRACE(models::ease_title(values) + (users.values.empty() ? "" : " with values"));
        compare(run, train, values);
      }
    }
  });
}

TEST_F(ItemModels, WeightsOfEaseKEqualTheReference) {
  constexpr Weights weights = {{{0, 0, 0, 0, 0},
                                {.18098117, 0, .16913698, 0, .08739483},
                                {0, .14196690, 0, .14196690, 0},
                                {0, 0, .15983637, 0, .08258911},
                                {.08699660, .09509674, 0, .09509674, 0}}};
  on_ranks(2, [&](const run::Run& run) {
    const models::EaseValues values{
        .l2 = 2.0, .dropout = 0.25, .neighbors = 2, .user_power = 0.5, .relax = 0.4};
    const auto model = models::solve_ease(train_, values, run, 2);
    expect_weights(*model, weights, 1e-6);
    EXPECT_EQ(std::get<models::SparseWeights>(model->solution()).data.size(), 10U);
  });
}

TEST_F(ItemModels, EaseKEqualsItsDefinitionOnAnyNumberOfRanks) {
  constexpr std::int32_t items = 60;
  for (const Csr& users : {make_users(100, items), with_values(make_users(100, items))}) {
    models::Interactions train = models::make_interactions(users, items);
    train.features = make_features(items);
    for (const auto& [user_power, feature_weight] :
         std::vector<std::pair<double, double>>{{0.0, 0.0}, {0.6, 0.0}, {0.0, 30.0}, {0.6, 3.0}}) {
      const models::EaseValues values{.l2 = 2.0,
                                      .dropout = 0.25,
                                      .neighbors = 20,
                                      .user_power = user_power,
                                      .feature_weight = feature_weight};
      SCOPED_TRACE(models::ease_title(values) + (users.values.empty() ? "" : " with values"));
      models::SparseWeights expected;
      for (const int ranks : {1, 2, 3, 4}) {
        on_ranks(ranks, [&](const run::Run& run) {
          const auto model = models::solve_ease(train, values, run, 1 + ranks % 3);
          const auto& weights = std::get<models::SparseWeights>(model->solution());
          if (ranks == 1) {
            expected = weights;
            for (std::int32_t j = 0; j < items; ++j) {
              const std::vector<double> column = reference_column(train, j, values);
              for (std::int32_t i = 0; i < items; ++i)
                EXPECT_NEAR(scores_of(*model, i, items)[j], column[i], 1e-5) << i << ", " << j;
            }
          }
          EXPECT_EQ(weights.indptr, expected.indptr);
          EXPECT_EQ(weights.indices, expected.indices);
          EXPECT_EQ(weights.data, expected.data);
        });
      }
    }
  }
}

TEST_F(ItemModels, GramBlocksAreEqualHoweverMuchIsStored) {
  constexpr std::int32_t items = 50;
  for (const Csr& users : {make_users(200, items), with_values(make_users(200, items))}) {
    models::Interactions train = models::make_interactions(users, items);
    train.features = make_features(items);
    const models::UserWeights weights =
        models::weigh_users(train, 0.7, 5.0);  // sums that depend on their order
    std::vector<float> expected;
    for (const double bytes : {0.0, 2.0 * 10 * 10, 1e9}) {
      const models::Gram gram(train, weights, bytes, 2);
      ASSERT_EQ(gram.order()[0], 0);
      models::Gram::Workspace work(gram);
      std::vector<std::int32_t> positions;
      for (std::int32_t i = 0; i < items; i += 1 + i % 3) positions.push_back(i);
      device::SpdRegression block;
      std::vector<float> found;
      for (int repetition = 0; repetition < 2; ++repetition) {
        block.reset(static_cast<std::int64_t>(positions.size()));
        gram.add_block(positions, block, work);
      }
      for (std::int64_t b = 0; b < block.size(); ++b) {
        gram.read_row(positions[b], work);
        for (std::int64_t a = 0; a < b; ++a) {
          found.push_back(block.at(a, b));
          EXPECT_EQ(found.back(), work.row[positions[a]]) << bytes;
        }
      }
      if (expected.empty()) expected = found;
      EXPECT_EQ(found, expected) << bytes;
    }
  }
}

// 1,100 items have the same feature; user 0 has the last of them, which are the least popular ones, and user
// 1 the others.
TEST_F(ItemModels, RowOfGramTakesTheMostPopularItemsOfAFeature) {
  constexpr std::int32_t items = 1100;
  Csr users;
  std::vector<std::int32_t> all(items), popular(1050);
  std::iota(all.begin(), all.end(), 0);
  std::iota(popular.begin(), popular.end(), 0);
  users.append(popular);
  users.append(popular);
  users.append(std::span(all).subspan(1090));
  models::Interactions train = models::make_interactions(users, items);
  for (std::int32_t item = 0; item < items; ++item) train.features.append(std::array{0});
  const models::UserWeights weights = models::weigh_users(train, 0.0, 110.0);  // 0.1 for the feature
  const models::Gram gram(train, weights, 0.0, 1);
  models::Gram::Workspace work(gram);
  const auto position = std::ranges::find(gram.order(), 1099) - gram.order().begin();
  gram.read_row(position, work);
  EXPECT_EQ(work.nonzero.size(), 1010U) << "1,000 by the feature, and 10 by the user";
  for (std::int32_t p = 0; p < items; ++p) {
    const std::int32_t item = gram.order()[static_cast<std::size_t>(p)];
    const float expected = item >= 1090 ? 1.1F : p < 1000 ? 0.1F : 0.0F;
    EXPECT_FLOAT_EQ(work.row[static_cast<std::size_t>(p)], expected) << item;
    if (expected == 0.0F) {
      gram.complete_row(p, work);
      EXPECT_FLOAT_EQ(work.row[static_cast<std::size_t>(p)], 0.1F) << item;
    }
  }
}

TEST_F(ItemModels, EaseOfAnIndefiniteMatrixThrowsOnAllRanks) {
  on_ranks(2, [](const run::Run& run) {
    models::Interactions train =
        models::make_interactions(Csr{{0, 2}, {0, 1}}, 2);  // equal columns: X'X is singular
    for (const std::int64_t neighbors : {0, 1}) {
      const models::EaseValues values{.l2 = 1e-30, .neighbors = neighbors};
      expect_error<InputError>({"model.ease.l2: with 1e-30"},
                               [&] { models::solve_ease(train, values, run, 1); });
    }
  });
}

TEST_F(ItemModels, RequestToStopEndsASolutionOnAllRanks) {
  const models::Interactions train = models::make_interactions(make_many_users(), many);
  for (const std::int64_t neighbors : {0, 20}) {
    StopFlag flag;
    on_ranks(3, [&](const run::Run& run) {
      const bool first = run.communicator.rank() == 0;
      StopsAfter stops(flag, first ? 2 : 0, "EASE");  // blocks or items
      const run::Run stopping = with(run, stops, first ? &flag : nullptr);
      EXPECT_FALSE(models::solve_ease(train, {.l2 = 20.0, .neighbors = neighbors}, stopping, 1)) << neighbors;
    });
  }
}

}  // namespace
}  // namespace vaecf::training
