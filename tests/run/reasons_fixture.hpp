#pragma once

#include <vaecf/io/checkpoint.hpp>

#include "support/train_fixture.hpp"

namespace vaecf::training {

inline const Csr explained_histories{{0, 3, 3, 4, 24}, {0,  5,  10, 59, 1,  2,  4,  6,  8,  9,  11, 12,
                                                        20, 21, 22, 23, 24, 30, 31, 40, 41, 50, 55, 58}};

/// Returns the histories with ones, and with values of .25 to 2.75.
inline std::vector<Csr> make_histories() {
  Csr valued = explained_histories;
  for (std::size_t k = 0; k < valued.columns.size(); ++k)
    valued.values.push_back(0.25F * static_cast<float>(1 + k * 7 % 11));
  return {explained_histories, valued};
}

/// Returns x_i of a user with item i.
inline double value_of(const Csr& histories, std::size_t user, std::int32_t i) {
  const SparseRow row = histories.view().sparse_row(static_cast<std::int64_t>(user));
  return row.value(static_cast<std::size_t>(std::ranges::find(row.columns, i) - row.columns.begin()));
}

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
    checkpoint_ = run_folder().best();
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

  /// Trains a model that is solved, whose reasons are its weights.
  void expect_weights_as_reasons() {
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

  std::string checkpoint_;
};

}  // namespace vaecf::training
