// Ranks, metrics and top-k lists.
#include <vaecf/base/error.hpp>
#include <vaecf/math/metrics.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device/contract/contract.hpp"

namespace vaecf::testing {
namespace {

using device::Activation;
using device::TensorKind;

class Ranking : public LayerContract {
 protected:
  /// An output layer with input for some users, and their scores in fp64.
  struct Case {
    TestLayer layer;
    TestBatch batch;
    device::Matrix hidden;
    Matrix scores;
  };
  Case make_case(TestLayer layer, const Matrix& hidden, const Csr& own) {
    Case c{std::move(layer), {}, activations(hidden), {}};
    gather(own, c.layer.weight.columns, false, c.batch);
    c.scores = reference::linear(hidden, c.layer.weight, c.layer.bias, Activation::identity);
    return c;
  }
  /// Makes a case of integers: scores are exact in every precision, with many ties. Results must be equal,
  /// not close.
  Case whole_case(std::int64_t users, std::int64_t items, std::int64_t width, std::int64_t max_items = 40,
                  int range = 2) {
    return make_case(make_layer(TensorKind::output_table, whole_numbers(width, items, 1, range),
                                whole_numbers(1, items, 2, 3)),
                     whole_numbers(users, width, 4, range), random_rows(users, items, 3, max_items));
  }

  std::vector<std::int32_t> rank(const Case& c, CsrView targets) {
    std::vector<std::int32_t> ranks(static_cast<std::size_t>(targets.entries()), -7);
    device().rank_targets(c.hidden, *c.batch.device, targets, c.layer.parameters, c.layer.layer, ranks);
    return ranks;
  }
  std::pair<std::vector<std::int32_t>, std::vector<float>> top(const Case& c, int k) {
    std::vector<std::int32_t> items(static_cast<std::size_t>(c.scores.rows * k), -7);
    std::vector<float> scores(items.size(), -7.0F);
    device().top_k(c.hidden, *c.batch.device, c.layer.parameters, c.layer.layer, k, items, scores);
    return {items, scores};
  }
  void expect_ranks(const Case& c, CsrView targets) {
    EXPECT_EQ(rank(c, targets), reference::rank_targets(c.scores, c.batch.host, targets));
  }
  void expect_top(const Case& c, int k) {
    SCOPED_TRACE(format("{} users, {} items, k {}", c.scores.rows, c.scores.columns, k));
    const auto [items, scores] = top(c, k);
    for (std::int64_t row = 0; row < c.scores.rows; ++row) {
      std::vector<std::int32_t> order = reference::ranking(c.scores, c.batch.host, row);
      order.resize(static_cast<std::size_t>(k), -1);
      for (int place = 0; place < k; ++place) {
        const auto at = static_cast<std::size_t>(row * k + place);
        const std::int32_t item = order[static_cast<std::size_t>(place)];
        ASSERT_EQ(items[at], item) << "row " << row << " index " << place;
        ASSERT_EQ(scores[at], item < 0 ? -std::numeric_limits<float>::infinity()
                                       : static_cast<float>(c.scores.at(row, item)));
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Ranking, ::testing::ValuesIn(contract_devices()), contract_name);

constexpr LayerSize ranked_shapes[] = {{1, 1}, {33, 7}, {1000, 33}};

TEST_P(Ranking, RanksAreExactWithTiesAndMasks) {
  for (const auto& [items, width] : ranked_shapes) {
    for (const std::int64_t users : user_counts) {
      SCOPED_TRACE(format("items {} hidden {} users {}", items, width, users));
      // Targets drawn independently of the user's own items: some are masked, and some users have none.
      expect_ranks(whole_case(users, items, width), random_rows(users, items, 5, 12).view());
    }
  }
  // More users than any device scores at a time; the targets of one user are all items.
  expect_ranks(whole_case(1100, 61, 5, 8), random_rows(1100, 61, 5).view());
}

TEST_P(Ranking, TargetsMayBeASlice) {
  const Csr all = random_rows(17, 100, 5, 12);
  expect_ranks(whole_case(10, 100, 8),
               {std::span(all.offsets).subspan(7), std::span(all.columns).subspan(all.offsets[7])});
}

TEST_P(Ranking, LowerItemWinsTies) {
  const Case c = make_case(make_layer(TensorKind::output_table, Matrix(3, 257), Matrix(1, 257)),
                           random_matrix(1, 3, 1), {{0, 2}, {5, 100}});
  const Csr targets{{0, 5}, {0, 5, 6, 101, 256}};
  EXPECT_EQ(rank(c, targets.view()), (std::vector<std::int32_t>{0, 257, 5, 99, 254}));
  const auto [items, scores] = top(c, 7);
  EXPECT_EQ(items, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 6, 7}));
  EXPECT_EQ(scores, std::vector<float>(7, 0.0F));
}

// NaN scores must neither improve metrics nor break the sort.
TEST_P(Ranking, NanScoresComeLast) {
  constexpr std::int64_t items = 300;
  Matrix bias(1, items);
  for (std::int64_t i = 0; i < items; ++i)
    bias.values[i] = i % 3 == 0 ? std::nan("") : static_cast<double>(i);
  const Case c = make_case(make_layer(TensorKind::output_table, Matrix(2, items), bias),
                           random_matrix(1, 2, 1), {{0, 1}, {299}});
  const Csr targets{{0, 3}, {0, 1, 298}};
  const auto ranks = rank(c, targets.view());
  EXPECT_EQ(ranks[0], 298);        // behind all items that the user does not have
  EXPECT_EQ(ranks[1], 100 + 198);  // behind every NaN and every greater score except the masked one
  EXPECT_EQ(ranks[2], 100);
  const auto best = top(c, 200).first;
  EXPECT_EQ(best[0], 298);
  EXPECT_EQ(best[198], 1);
  EXPECT_EQ(best[199], 0);
}

// A rank may differ from that of fp64 by the number of items with almost equal scores.
TEST_P(Ranking, RandomScores) {
  const std::int64_t users = 33;
  const std::int64_t items = 5000;
  const Case c = make_case(random_layer(TensorKind::output_table, 200, items), random_matrix(users, 200, 4),
                           random_rows(users, items, 3));
  const Csr targets = random_rows(users, items, 5, 12);
  const std::vector<std::int32_t> ranks = rank(c, targets.view());
  const double margin = low_precision() ? 0.05 : 2e-5;
  std::size_t entry = 0;
  for (std::int64_t row = 0; row < users; ++row) {
    std::vector<double> ranked;  // all items that the user does not have, worst first
    for (std::int32_t i = 0; i < items; ++i) {
      if (!c.batch.host.holds(row, i)) ranked.push_back(c.scores.at(row, i));
    }
    std::sort(ranked.begin(), ranked.end());
    const auto better_than = [&](double score) {
      return ranked.end() - std::upper_bound(ranked.begin(), ranked.end(), score);
    };
    for (const std::int32_t target : targets.view().row(row)) {
      const std::int32_t got = ranks[entry++];
      if (c.batch.host.holds(row, target)) {
        EXPECT_EQ(got, items);
        continue;
      }
      const double score = c.scores.at(row, target);
      EXPECT_GE(got, better_than(score + margin));
      EXPECT_LE(got, better_than(score - margin) - 1) << "the target does not rank ahead of itself";
    }
  }
}

TEST_P(Ranking, TopKIsExactWithTiesAndMasks) {
  for (const auto& [items, width] : ranked_shapes) {
    for (const std::int64_t users : user_counts) {
      const Case c = whole_case(users, items, width);
      for (const int k : {1, 10, 40}) expect_top(c, k);
    }
  }
  // Complete lists of many users: as many entries as items, and more.
  const Case all = whole_case(700, 61, 5);
  for (const int k : {61, 64}) expect_top(all, k);
  // More entries than a device may sort at a time.
  expect_top(whole_case(110, 20108, 5, 300, 9), 100);
}

TEST_P(Ranking, RankAgreesWithTopK) {
  // Both use the same scores: the item at index p of top_k has rank p, however scores are rounded.
  const std::int64_t users = 33;
  const int k = 50;
  const Case c = make_case(random_layer(TensorKind::output_table, 64, 1000), random_matrix(users, 64, 4),
                           random_rows(users, 1000, 3, 30));
  const std::vector<std::int32_t> best = top(c, k).first;
  Csr targets;
  for (std::int64_t row = 0; row < users; ++row) {
    for (int place = 0; place < k; ++place) {
      const std::int32_t item = best[static_cast<std::size_t>(row * k + place)];
      if (item >= 0) targets.columns.push_back(item);
    }
    std::sort(targets.columns.begin() + targets.offsets.back(), targets.columns.end());
    targets.offsets.push_back(static_cast<std::int64_t>(targets.columns.size()));
  }
  const std::vector<std::int32_t> ranks = rank(c, targets.view());
  for (std::int64_t row = 0; row < users; ++row) {
    const auto list = targets.view().row(row);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::int32_t place = ranks[static_cast<std::size_t>(targets.offsets[row]) + i];
      ASSERT_LT(place, k);
      ASSERT_EQ(best[static_cast<std::size_t>(row * k + place)], list[i]);
    }
  }
}

// Batches of several sizes, whose targets are rows of a larger set. Nothing between the calls waits for the
// device, so targets being copied must not be overwritten.
TEST_P(Ranking, MetricsOfBatchesEqualThoseOfTheirRanks) {
  constexpr std::int64_t items = 61;
  std::vector<math::Metric> metrics;
  for (const std::string name : math::UserMetrics::names) {
    for (const char* k : {"@1", "@2", "@3", "@5", "@8", "@1000"})
      metrics.push_back(math::parse_metric(name + k));
  }
  const Csr all = random_rows(1000, items, 5, 30);
  std::vector<Case> cases;
  for (const std::int64_t users : {33, 0, 1, 600, 40, 40, 40}) cases.push_back(whole_case(users, items, 5));
  const auto held = device().make_user_rows(all.view(), 0, items, device::single_rank());
  const auto values = device().make_metric_values(metrics.size(), held->rows());
  const auto compute_all = [&] {
    std::int64_t begin = 11;
    for (const Case& c : cases) {
      device().compute_metrics(c.hidden, *c.batch.device, *held, {begin, begin + c.scores.rows},
                               c.layer.parameters, c.layer.layer, metrics, *values);
      begin += c.scores.rows;
    }
  };
  compute_all();
  std::vector<double> expected(metrics.size() * 1000);
  int with_target = 0;
  std::int64_t begin = 11;
  for (const Case& c : cases) {
    const CsrView targets = all.view().subset({begin, begin + c.scores.rows});
    const auto ranks = reference::rank_targets(c.scores, c.batch.host, targets);
    auto next = ranks.begin();
    for (std::int64_t row = 0; row < targets.rows(); ++row) {
      const std::vector<std::int32_t> mine(next, next + targets.row_size(row));
      next += targets.row_size(row);
      for (std::size_t m = 0; m < metrics.size(); ++m) {
        expected[m * 1000 + static_cast<std::size_t>(begin + row)] =
            math::metric_of_user(metrics[m], mine, items);
      }
      with_target += mine.empty() ? 0 : 1;
    }
    begin += c.scores.rows;
  }
  for (int again = 0; again < 3; ++again) {
    if (again == 2) compute_all();  // before, reading changed nothing
    const std::vector<double> found = device().read_metrics(*values);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], 1e-12)
          << math::to_string(metrics[i / 1000]) << ", user " << i % 1000;
  }
  EXPECT_GT(with_target, 400);
  EXPECT_LT(with_target, 754);  // some have no target
  const Csr none{{0, 0, 0, 0}, {}};
  const auto nobody = device().make_user_rows(none.view(), 0, items, device::single_rank());
  const auto nothing = device().make_metric_values(1, 3);
  const Case c = whole_case(3, items, 5);
  device().compute_metrics(c.hidden, *c.batch.device, *nobody, {0, 3}, c.layer.parameters, c.layer.layer,
                           std::span(metrics).first(1), *nothing);
  EXPECT_EQ(device().read_metrics(*nothing), std::vector<double>(3));
}

}  // namespace
}  // namespace vaecf::testing
