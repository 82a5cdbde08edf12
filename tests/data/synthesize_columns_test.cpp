#include <vaecf/base/error.hpp>
#include <vaecf/data/feature_hashing.hpp>
#include <vaecf/data/synthesize.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/ranking.hpp"
#include "data/support.hpp"

namespace vaecf::data {
namespace {

class UserColumnsMade : public ::testing::Test {
 protected:
  UserColumnsMade() {
    options_.users = 2000;
    options_.items = 500;
    options_.interactions_per_user = 30;
  }
  io::DatasetFile make(int columns, const std::string& name) {
    options_.user_columns = columns;
    synthesize(options_, folder_.path(name), log_, progress_);
    return io::DatasetFile(folder_.path(name));
  }
  static Csr rows(const io::DatasetFile& file, const std::string& matrix) {
    return file.read_rows(matrix, {0, file.rows(matrix)});
  }

  test::TempFolder folder_;
  SynthesizeOptions options_;
  Log log_;
  Progress progress_;
};

TEST_F(UserColumnsMade, AreToldOfEveryUserAndChangeNoItem) {
  const io::DatasetFile without = make(0, "without.h5");
  EXPECT_EQ(without.features(), 0);
  EXPECT_FALSE(without.attributes().contains("features"));
  EXPECT_EQ(without.fingerprint(), "d02323244e6fdcf5");
  const io::DatasetFile with = make(3, "with.h5");
  EXPECT_EQ(with.features(), 3 * 2 * 16);
  const auto text = std::get<std::string>(with.attributes().at("feature_hashing"));
  EXPECT_EQ(FeatureHashing::parse(text).columns(),
            (std::vector<std::string>{"country", "age", "occupation"}));
  for (const char* const matrix :
       {"train", "validation/fold_in", "validation/held_out", "test/fold_in", "test/held_out"}) {
    EXPECT_EQ(rows(with, matrix).columns, rows(without, matrix).columns) << matrix;
  }
  EXPECT_EQ(with.rows("train/features"), 1600);
  EXPECT_EQ(with.rows("validation/features"), 200);
  EXPECT_EQ(with.rows("test/features"), 200);
  // One in twenty is missing, the others set two columns each.
  EXPECT_NEAR(static_cast<double>(with.entries("train/features")) / 1600, 3 * 2 * 0.95, 0.1);
  EXPECT_EQ(rows(make(3, "again.h5"), "test/features").columns, rows(with, "test/features").columns);
}

// Mean NDCG@100 of test users of whom no item is known: score(features) per item.
template <class Scores>
double cold_ndcg100(const io::DatasetFile& file, Scores scores) {
  const Csr features = file.read_rows("test/features", {0, file.rows("test/features")});
  const Csr targets = file.read_rows("test/held_out", {0, file.rows("test/held_out")});
  double total = 0;
  for (std::int64_t r = 0; r < targets.rows(); ++r) {
    total += ndcg100_of(scores(features.view().row(r)), targets.view().row(r));
  }
  return total / static_cast<double>(targets.rows());
}

// What a model has to find for users without a history, here by counting.
TEST_F(UserColumnsMade, SaySomethingOfWhatColdUsersLike) {
  const io::DatasetFile file = make(4, "told.h5");
  const Csr items = rows(file, "train");
  const Csr features = rows(file, "train/features");
  const auto width = static_cast<std::size_t>(file.features());
  std::vector<double> popularity(500, 1.0);
  std::vector<std::vector<double>> of_feature(width, std::vector<double>(500, 1.0));
  for (std::int64_t r = 0; r < items.rows(); ++r) {
    for (const std::int32_t item : items.view().row(r)) {
      const auto i = static_cast<std::size_t>(item);
      popularity[i] += 1;
      for (const std::int32_t f : features.view().row(r)) of_feature[static_cast<std::size_t>(f)][i] += 1;
    }
  }
  const double popular = cold_ndcg100(file, [&](std::span<const std::int32_t>) { return popularity; });
  const double told = cold_ndcg100(file, [&](std::span<const std::int32_t> known) {
    std::vector<double> score = popularity;
    for (const std::int32_t f : known) {
      const auto& counts = of_feature[static_cast<std::size_t>(f)];
      const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
      for (std::size_t i = 0; i < score.size(); ++i) {
        score[i] *= std::sqrt(counts[i] / all / (popularity[i] / 48000));
      }
    }
    return score;
  });
  RecordProperty("popularity", std::to_string(popular));
  RecordProperty("told", std::to_string(told));
  EXPECT_GT(told, 1.3 * popular);
  EXPECT_LT(told, 0.8);
}

TEST_F(UserColumnsMade, RefusesNumbersThatCannotBe) {
  for (const int columns : {-1, 65}) {
    const std::string message = test::message_of<InputError>([&] { make(columns, "no.h5"); });
    EXPECT_NE(message.find("give a number from 0 to 64"), std::string::npos) << message;
  }
  EXPECT_EQ(make(64, "many.h5").rows("test/features"), 200);
}

}  // namespace
}  // namespace vaecf::data
