// Reasons for recommended items, by what the definitions of the scores say about a checkpoint's tensors.
#include "run/reasons.hpp"

#include <numeric>

#include "run/reasons_fixture.hpp"
#include "support/for_each_kind.hpp"

namespace vaecf::training {
namespace {

/// B_ij of a model by hand: eighths, so that many are equal and some are negative, and a few zeros.
float made_weight(std::int64_t i, std::int64_t j) {
  return i == j ? 0.0F : static_cast<float>((i * 7 + j * 3) % 11 - 4) / 8.0F;
}

TEST_F(RecommendReasons, OfWeightsBetweenItemsAddUpToTheScore) {
  options_.model.type = ModelType::ease;
  options_.validation.baselines = {};
  train_on(1);
  const io::CheckpointFile solved(run_folder().best());
  checkpoint_ = file("made.h5");
  std::vector<std::int64_t> indptr{0};
  std::vector<std::int32_t> indices;
  std::vector<float> data;
  for (std::int32_t i = 0; i < 60; ++i) {
    for (std::int32_t j = 0; j < 60; ++j) {
      if (made_weight(i, j) == 0.0F) continue;
      indices.push_back(j);
      data.push_back(made_weight(i, j));
    }
    indptr.push_back(std::ssize(indices));
  }
  const auto dense = [](std::int64_t begin, std::int64_t end, std::span<float> out) {
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t j = 0; j < 60; ++j)
        out[static_cast<std::size_t>((i - begin) * 60 + j)] = made_weight(i, j);
  };
  const io::DatasetSummary dataset = solved.dataset();
  for (const bool sparse : {false, true}) {
    SCOPED_TRACE(sparse);
    if (sparse) {
      io::write_checkpoint(checkpoint_, solved.attributes(), {},
                           std::vector<io::ArraySource>{{"weights/items/indptr", indptr},
                                                        {"weights/items/indices", indices},
                                                        {"weights/items/data", data}},
                           &dataset);
    } else {
      io::write_checkpoint(checkpoint_, solved.attributes(),
                           std::vector<io::TensorSource>{{"weights/items/matrix", 60, 60, false, dense}}, {},
                           &dataset);
    }
    on_ranks(1, [&](const run::Run& run) {
      for (const Csr& histories : make_histories()) {
        for (const bool keep_seen : {false, true}) {
          const Explained found = explain(run, {60, keep_seen, {}, 4}, histories.view());
          expect_reasons(
              found, histories.view(), 4,
              [&](std::size_t user, std::int32_t i, std::int32_t j) {
                return value_of(histories, user, i) * made_weight(i, j);
              },
              0.0);
          for (std::size_t place = 0; place < 60; ++place)  // of user 0, who has three items
            if (found.items[place] >= 0) {
              EXPECT_EQ(found.contributions[place * 4] + found.contributions[place * 4 + 1] +
                            found.contributions[place * 4 + 2],
                        found.scores[place]);
            }
          // User 1 has no items.
          EXPECT_TRUE(std::isnan(found.scores[60]));
          EXPECT_GE(found.items[60], 0);
        }
        expect_error<std::logic_error>({"add up to", "but the score is"}, [&] {
          explain(run, {3, false, {}, 1}, histories.view(), {}, 1e-3F);
        });
      }
    });
  }
}

TEST_F(RecommendReasons, OfSolvedModelsAreTheirWeights) {
  options_.validation.baselines = {};
  testing::for_each_solved_kind([&](const models::SolvedKind& kind) {
    options_.name = kind.name();
    options_.model.type = kind.type();
    expect_weights_as_reasons();
  });
}

/// Returns the rows without item 0, without item 1 and so on, and at last as they are.
Csr leave_out_each_item(const Csr& histories) {
  Csr rows;
  for (std::int32_t item = 0; item <= 60; ++item) {
    for (std::int64_t user = 0; user < histories.rows(); ++user) {
      const SparseRow row = histories.view().sparse_row(user);
      for (std::size_t k = 0; k < row.columns.size(); ++k) {
        if (row.columns[k] == item) continue;
        rows.columns.push_back(row.columns[k]);
        if (!row.values.empty()) rows.values.push_back(row.values[k]);
      }
      rows.offsets.push_back(std::ssize(rows.columns));
    }
  }
  return rows;
}

TEST_F(RecommendReasons, OfNetworksAreScoresWithoutOneItem) {
  options_.data.file = make("features.h5", {.features = true});
  options_.validation.baselines = {};
  const Csr features{{0, 1, 2, 3, 4}, {2, 1, 3, 4}};
  Csr features_of_all;
  for (std::int32_t item = 0; item <= 60; ++item)
    for (std::int64_t user = 0; user < 4; ++user) features_of_all.append(features.view().row(user));
  testing::for_each_trained_kind([&](const models::TrainedKind& kind) {
    if (!kind.uses("model.user_features")) return;  // a linear model
    options_.name = kind.name();
    options_.distributed.item_slices = 1;
    options_.model.type = kind.type();
    train_and_take();
    // The loss of the plain autoencoder is defined for ones.
    std::vector<Csr> all_histories = make_histories();
    if (kind.type() == ModelType::autoencoder) all_histories.pop_back();
    for (std::size_t c = 0; c < 2 * all_histories.size(); ++c) {
      const Csr& histories = all_histories[c / 2];
      const int ranks = 1 + static_cast<int>(c % 2);
      options_.distributed.item_slices = ranks;
      const Csr left_out = leave_out_each_item(histories);
      on_ranks(ranks, [&](const run::Run& run) {
        const Lists lists =
            recommend(run, checkpoint_, {60, true, {}}, left_out.view(), features_of_all.view());
        std::vector<double> scores(lists.items.size());  // by item
        for (std::size_t place = 0; place < scores.size(); ++place)
          scores[place / 60 * 60 + static_cast<std::size_t>(lists.items[place])] = lists.scores[place];
        const auto truth = [&](std::size_t user, std::int32_t i, std::int32_t j) {
          const auto score = [&](std::size_t without) {
            return scores[(without * 4 + user) * 60 + static_cast<std::size_t>(j)];
          };
          return score(60) - score(static_cast<std::size_t>(i));
        };
        // User 1 has features alone, and no reasons; user 2 has one item.
        const Explained found = explain(run, {7, false, {}, 5}, histories.view(), features.view());
        expect_reasons(found, histories.view(), 5, truth, 2e-5);
        EXPECT_GT(std::abs(found.contributions[105]), 2e-4) << "ten times the tolerance";
      });
    }
  });
}

TEST_F(RecommendReasons, OfNetworksAreAmongTheLastThousandItems) {
  options_.data.file = make("wide.h5", {.users = 60, .items = 1210, .validation = 5, .test = 5});
  options_.model = {ModelType::mult_dae, {6}, 4, 0.5};
  options_.train.epochs = 1;
  options_.validation.baselines = {};
  train_and_take();
  Csr seen;
  std::vector<std::int32_t> long_history(1200), short_history(1000);
  std::iota(long_history.begin(), long_history.end(), 0);
  std::iota(short_history.begin(), short_history.end(), 0);
  seen.append(long_history);
  seen.append(short_history);
  on_ranks(1, [&](const run::Run& run) {
    Explained found = explain(run, {1, false, {}, 1100}, seen.view());
    const auto reasons_of = [&](std::size_t user) {
      std::vector<std::int32_t> all(found.because.begin() + static_cast<std::ptrdiff_t>(user * 1100),
                                    found.because.begin() + static_cast<std::ptrdiff_t>((user + 1) * 1100));
      std::erase(all, -1);
      std::ranges::sort(all);
      return all;
    };
    EXPECT_EQ(reasons_of(0), std::vector(long_history.begin() + 200, long_history.end()));
    EXPECT_EQ(reasons_of(1), short_history);
    const Csr last{{0, 2, 3}, {1, 1100, 7}};
    found = explain(run, {1, false, {}, 1100}, seen.view(), {}, 0.0F, last.view());
    EXPECT_EQ(reasons_of(0), (std::vector<std::int32_t>{1, 1100}));
    EXPECT_EQ(reasons_of(1), std::vector<std::int32_t>{7});
  });
}

TEST(SelectReasons, LargestFirstAndTiesToTheLowerItem) {
  const std::array<std::int32_t, 5> history{2, 3, 5, 7, 11};
  const std::array<float, 5> contributions{-1.0F, 0.5F, std::nanf(""), 2.0F, 0.5F};
  std::vector<std::int32_t> because(5);
  std::vector<float> largest(5);
  run::select_reasons(history, contributions, because, largest);
  EXPECT_EQ(because, (std::vector<std::int32_t>{7, 3, 11, 2, -1}));
  EXPECT_EQ(largest[3], -1.0F);
  EXPECT_TRUE(std::isnan(largest[4]));
  run::select_reasons(history, contributions, std::span(because).first(2), std::span(largest).first(2));
  EXPECT_EQ(because[1], 3);
}

TEST(SelectReasons, WrongSumsAreNoticed) {
  const std::array<float, 3> contributions{3.0F, -1.0F, 0.5F};
  EXPECT_NO_THROW(run::require_sum(contributions, 7, 2.5F, 0.0));
  EXPECT_NO_THROW(run::require_sum(contributions, 7, 2.50004F, 0.0)) << "of 4.5, the sum of absolute values";
  EXPECT_THROW(run::require_sum(contributions, 7, 2.50006F, 0.0), std::logic_error);
  EXPECT_NO_THROW(run::require_sum(contributions, 7, 2.50006F, 10.0));
  EXPECT_THROW(run::require_sum(contributions, 7, std::nanf(""), 10.0), std::logic_error);
  EXPECT_THROW(run::require_sum({}, 7, 1.0F, 0.0), std::logic_error);
}

}  // namespace
}  // namespace vaecf::training
