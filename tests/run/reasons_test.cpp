// Reasons for recommended items, by what the definitions of the scores say about a checkpoint's tensors.
#include "run/reasons.hpp"

#include <numeric>

#include "support/for_each_kind.hpp"
#include "support/train_fixture.hpp"

namespace vaecf::training {
namespace {

class RecommendReasons : public TrainTest {
 protected:
  struct Explained : Lists {
    std::vector<std::int32_t> because;
    std::vector<float> contributions;
  };
  Explained explain(const run::Run& run, const run::RecommendOptions& choice, CsrView seen,
                    CsrView features = {}, float planted = 0.0F, CsrView last = {}) const {
    const run::Recommender recommender(options_, run, io::CheckpointFile(checkpoint_), true);
    const auto size = static_cast<std::size_t>(seen.rows() * recommender.list_length(choice));
    const std::size_t reasons = size * static_cast<std::size_t>(choice.reasons);
    Explained found;
    found.items.resize(size);
    found.scores.resize(size);
    found.because.resize(reasons);
    found.contributions.resize(reasons);
    const run::RecommendRequest request{choice, seen, features, last};
    recommender.recommend(request, found.items, found.scores);
    found.scores[1] += planted;
    recommender.explain(request, found.items, found.scores, found.because, found.contributions);
    return found;
  }

  /// Trains the model of the options, whose checkpoint is then explained.
  void train_and_take() {
    train_on(1);
    checkpoint_ = options_.best_checkpoint();
  }

  /// The contribution of item i of a user to the score of item j, in fp64.
  using Truth = std::function<double(std::size_t user, std::int32_t i, std::int32_t j)>;

  /// Expects for each item in a list the largest contributions of the user's items, in order.
  static void expect_reasons(const Explained& found, CsrView seen, std::size_t reasons, const Truth& truth,
                             double tolerance) {
    const std::size_t width = found.items.size() / static_cast<std::size_t>(seen.rows());
    for (std::size_t place = 0; place < found.items.size(); ++place) {
      const std::size_t user = place / width;
      const auto history = seen.row(static_cast<std::int64_t>(user));
      std::vector<double> expected;
      for (const std::int32_t i : history) expected.push_back(truth(user, i, found.items[place]));
      std::ranges::sort(expected, std::greater());
      for (std::size_t n = 0; n < reasons; ++n) {
        const std::int32_t because = found.because[place * reasons + n];
        const float contribution = found.contributions[place * reasons + n];
        if (found.items[place] < 0 || n >= history.size()) {
          EXPECT_EQ(because, -1) << place << ", " << n;
          EXPECT_TRUE(std::isnan(contribution)) << place << ", " << n;
          continue;
        }
        ASSERT_TRUE(std::ranges::binary_search(history, because)) << place << ", " << n << ": " << because;
        EXPECT_NEAR(contribution, truth(user, because, found.items[place]), tolerance) << place << ", " << n;
        EXPECT_NEAR(contribution, expected[n], tolerance) << place << ", " << n;
        if (n == 0) continue;
        const float before = found.contributions[place * reasons + n - 1];
        EXPECT_TRUE(before > contribution ||
                    (before == contribution && found.because[place * reasons + n - 1] < because));
      }
    }
  }

  std::string checkpoint_;
};

/// B_ij of a model by hand: eighths, so that many are equal and some are negative, and a few zeros.
float made_weight(std::int64_t i, std::int64_t j) {
  return i == j ? 0.0F : static_cast<float>((i * 7 + j * 3) % 11 - 4) / 8.0F;
}

const Csr explained_histories{{0, 3, 3, 4, 24}, {0,  5,  10, 59, 1,  2,  4,  6,  8,  9,  11, 12,
                                                 20, 21, 22, 23, 24, 30, 31, 40, 41, 50, 55, 58}};

/// Returns the histories with ones, and with values of .25 to 2.75.
std::vector<Csr> make_histories() {
  Csr valued = explained_histories;
  for (std::size_t k = 0; k < valued.columns.size(); ++k)
    valued.values.push_back(0.25F * static_cast<float>(1 + k * 7 % 11));
  return {explained_histories, valued};
}

/// Returns x_i of a user with item i.
double value_of(const Csr& histories, std::size_t user, std::int32_t i) {
  const SparseRow row = histories.view().sparse_row(static_cast<std::int64_t>(user));
  return row.value(static_cast<std::size_t>(std::ranges::find(row.columns, i) - row.columns.begin()));
}

TEST_F(RecommendReasons, OfWeightsBetweenItemsAddUpToTheScore) {
  options_.model.type = ModelType::ease;
  options_.validation.baselines = {};
  train_on(1);
  const io::CheckpointFile solved(options_.best_checkpoint());
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
  for (const std::vector<std::string>& keys : std::vector<std::vector<std::string>>{
           {"model.type=ease", "model.ease={l2: [20], user_power: [0.5], dropout: [0.3], relax: [0.4]}"},
           {"model.ease.neighbors=9"},
           {"model.type=item_knn", "model.item_knn.neighbors=7"}}) {
    SCOPED_TRACE(keys.back());
    set(keys);
    train_and_take();
    const io::CheckpointFile checkpoint(checkpoint_);
    std::vector<float> weights(60 * 60, 0.0F);
    if (checkpoint.find_tensor("weights/items/matrix") != nullptr) {
      checkpoint.read_rows("weights/items/matrix", 0, 60, weights);
    } else {
      const auto indptr = checkpoint.read_array<std::int64_t>("weights/items/indptr");
      const auto indices = checkpoint.read_array<std::int32_t>("weights/items/indices");
      const auto data = checkpoint.read_array<float>("weights/items/data");
      for (std::size_t i = 0; i < 60; ++i)
        for (auto k = static_cast<std::size_t>(indptr[i]); k < static_cast<std::size_t>(indptr[i + 1]); ++k)
          weights[i * 60 + static_cast<std::size_t>(indices[k])] = data[k];
    }
    on_ranks(1, [&](const run::Run& run) {
      const Explained found = explain(run, {10, false, {}, 3}, explained_histories.view());
      expect_reasons(
          found, explained_histories.view(), 3,
          [&](std::size_t, std::int32_t i, std::int32_t j) {
            return weights[static_cast<std::size_t>(i) * 60 + static_cast<std::size_t>(j)];
          },
          0.0);
      EXPECT_EQ(found.items, recommend(run, checkpoint_, {10, false, {}}, explained_histories.view()).items);
    });
  }
}

// The own item of a list with seen items contributes x_i / |x|.
TEST_F(RecommendReasons, OfElsaAreProductsOfItems) {
  options_.model.type = ModelType::elsa;
  options_.model.elsa.factors = 12;
  options_.validation.baselines = {};
  train_and_take();
  std::vector<float> table(60 * 12);
  io::CheckpointFile(checkpoint_).read_rows("weights/items/weight", 0, 60, table);
  const auto product = [&](std::int32_t i, std::int32_t j) {
    const float* a = &table[static_cast<std::size_t>(i) * 12];
    const float* b = &table[static_cast<std::size_t>(j) * 12];
    return std::inner_product(a, a + 12, b, 0.0);
  };
  for (const int ranks : {1, 2}) {
    options_.distributed.item_slices = ranks;
    for (const Csr& histories : make_histories()) {
      const auto truth = [&](std::size_t user, std::int32_t i, std::int32_t j) {
        double squares = 0.0;
        for (const std::int32_t other : histories.view().row(static_cast<std::int64_t>(user)))
          squares += std::pow(value_of(histories, user, other), 2.0);
        return value_of(histories, user, i) * product(i, j) /
               std::sqrt(product(i, i) * product(j, j) * squares);
      };
      on_ranks(ranks, [&](const run::Run& run) {
        const Explained found = explain(run, {60, true, {}, 25}, histories.view());
        expect_reasons(found, histories.view(), 25, truth, 1e-6);
        for (std::size_t place = 180; place < 240; ++place) {  // of user 3, who has 20 items
          const auto all = std::span(found.contributions).subspan(place * 25, 20);
          EXPECT_NEAR(std::accumulate(all.begin(), all.end(), 0.0), found.scores[place], 1e-5);
        }
        expect_error<std::logic_error>({"add up to"}, [&] {
          explain(run, {3, false, {}, 1}, histories.view(), {}, 1e-3F);
        });
      });
    }
  }
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
