#include <vaecf/base/error.hpp>
#include <vaecf/math/random_order.hpp>
#include <vaecf/math/ranking.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "math/user_metrics.hpp"
#include "support/messages.hpp"
#include "support/reference_file.hpp"

namespace vaecf::math {
namespace {

TEST(MetricName, ParsesAndPrints) {
  EXPECT_EQ(parse_metric("recall@20").k, 20);
  EXPECT_NE(parse_metric("recall@20"), parse_metric("recall_n@20"));
  for (const std::string name : {"ndcg@1", "recall@2147483647", "coverage@10", "gini@5", "mean_popularity@7",
                                 "tail_share@1", "novelty@20"})
    EXPECT_EQ(to_string(parse_metric(name)), name);
  for (const std::string name : UserMetrics::names)
    EXPECT_EQ(to_string(parse_metric(name + "@10")), name + "@10");
}

TEST(MetricName, InvalidNamesThrowInputError) {
  for (const char* name :
       {"", "ndcg", "ndcg@", "@10", "NDCG@10", "no_metric@10", "ndcg@0", "ndcg@-5", "ndcg@1.5", "ndcg@10 ",
        "ndcg@ 10", "ndcg@010", "ndcg@ten", "recall@2147483648", "ndcg@10@20"}) {
    EXPECT_THROW(parse_metric(name), InputError) << name;
  }
  expect_in(message_of<InputError>([] { parse_metric("ndgc@100"); }), {"ndgc@100", "recall@K"});
}

double value(const char* name, const std::vector<std::int32_t>& ranks, std::int64_t items = 1000) {
  return metric_of_user(parse_metric(name), ranks, items);
}

// MetricsReference covers all other cases.
TEST(Variants, PerfectAndEmptyLists) {
  for (const char* name : {"recall_n@3", "hit@3", "mrr@3", "map@3", "ndcg@3", "recall@3"}) {
    EXPECT_DOUBLE_EQ(value(name, {2, 0, 1}), 1.0) << name;
    EXPECT_EQ(value(name, {3, 4, 5}), 0.0) << name;
    EXPECT_EQ(value(name, {}), 0.0) << name;
    EXPECT_EQ(value(name, {2}, 2), 0.0) << name;  // a masked target, and a cut-off larger than the catalog
  }
  EXPECT_DOUBLE_EQ(value("recall_n@10", {0, 1000, 1000}), 1.0 / 3);  // masked targets count as targets
}

TEST(Precision, DividesByTheCutOffEvenIfFewerItemsAreLeft) {
  EXPECT_DOUBLE_EQ(value("precision@4", {0, 3, 4}), 2.0 / 4.0);
  EXPECT_DOUBLE_EQ(value("precision@1", {0}), 1.0);
  EXPECT_DOUBLE_EQ(value("precision@10", {0, 1}, 2), 2.0 / 10.0) << "a cut-off larger than the catalog";
  EXPECT_DOUBLE_EQ(value("precision@5", {0, 2, 2}, 2), 1.0 / 5.0) << "masked targets";
  EXPECT_EQ(value("precision@3", {}), 0.0);
}

TEST(Unbiased, WeighsHitsByTheInverseOfThePropensity) {
  const std::vector<double> gains = inverse_propensities(std::vector<std::int64_t>{10000, 2500, 100, 0});
  EXPECT_EQ(gains, (std::vector<double>{1.0, 2.0, 10.0, 100.0}));
  const auto of = [&](const char* name, const std::vector<std::int32_t>& ranks) {
    return metric_of_user(parse_metric(name), ranks, 1000, std::span(gains).first(3));
  };
  EXPECT_DOUBLE_EQ(of("unbiased_recall@2", {0, 7, 8}), 1.0 / 12.0) << "the two largest gains of three";
  EXPECT_DOUBLE_EQ(of("unbiased_recall@5", {0, 7, 3}), 11.0 / 13.0);
  const double second = 1.0 / std::log2(3.0);
  EXPECT_DOUBLE_EQ(of("unbiased_ndcg@2", {1, 0, 9}), (2.0 + second) / (10.0 + 2.0 * second));
  EXPECT_EQ(value("unbiased_recall@3", {0, 5}), value("recall@3", {0, 5})) << "equal gains";
  EXPECT_DOUBLE_EQ(value("unbiased_ndcg@3", {1, 5}), value("ndcg@3", {1, 5}));
  EXPECT_EQ(inverse_propensities(std::vector<std::int64_t>{0, 0}), (std::vector<double>{100.0, 100.0}));
}

TEST(IsBetter, SmallestOfGiniAndPopularityAndLargestOfAllOthers) {
  for (const char* name : {"gini@10", "mean_popularity@5"}) {
    EXPECT_TRUE(is_better(name, 0.1, 0.2)) << name;
    EXPECT_FALSE(is_better(name, 0.2, 0.1) || is_better(name, 0.2, 0.2)) << name;
  }
  for (const char* name : {"ndcg@10", "precision@1", "coverage@3", "tail_share@3", "novelty@3", "last"}) {
    EXPECT_TRUE(is_better(name, 0.2, 0.1)) << name;
    EXPECT_FALSE(is_better(name, 0.1, 0.2) || is_better(name, 0.2, 0.2)) << name;
  }
}

TEST(Beats, HigherScoreThenLowerItemAndNanAgainstTheTarget) {
  EXPECT_TRUE(ranks_ahead(2.0F, 9, 1.0F, 3));
  EXPECT_FALSE(ranks_ahead(1.0F, 3, 2.0F, 9));
  EXPECT_TRUE(ranks_ahead(1.0F, 3, 1.0F, 9));
  EXPECT_FALSE(ranks_ahead(1.0F, 9, 1.0F, 3));
  EXPECT_TRUE(ranks_ahead(std::nanf(""), 9, 1.0F, 3));
  EXPECT_TRUE(ranks_ahead(1.0F, 9, std::nanf(""), 3));
}

TEST(MetricSums, MeanAndStandardErrorEqualThoseOfTheValues) {
  MetricSums whole;
  const std::vector<double> values = {0.0, 0.25, 0.5, 1.0, 1.0, 0.125, 0.75};
  for (const double value : values) whole.add(value);
  EXPECT_DOUBLE_EQ(whole.mean(), 3.625 / 7.0);
  double variance = 0.0;
  for (const double value : values) variance += (value - whole.mean()) * (value - whole.mean()) / 7.0;
  EXPECT_NEAR(whole.standard_error(), std::sqrt(variance / 7.0), 1e-14);
  EXPECT_EQ(MetricSums{}.mean(), 0.0);
  EXPECT_EQ(MetricSums{}.standard_error(), 0.0);
  MetricSums sums;
  for (int i = 0; i < 1000; ++i) sums.add(0.1);
  EXPECT_NEAR(sums.standard_error(), 0.0, 1e-9) << "of equal values";
}

// Ten lists of two: item 0 is in all, items 1 and 2 in 7 and 3. The Lorenz curve of (0, 3, 7, 10) has the
// area (0 + 3 + 7 + 10 weighted by 7, 5, 3, 1) / (4 * 20 * 2) = (15 + 21 + 10) / 160 below it.
TEST(RandomOrder, ExpectationsAreMeansOverAllOrders) {
  constexpr std::int64_t candidates = 7;
  for (std::int64_t targets = 1; targets <= candidates; ++targets) {
    for (const std::string name : UserMetrics::names) {
      for (const int k : {1, 2, 5, 7, 9}) {
        const Metric metric = parse_metric(name + "@" + std::to_string(k));
        double sum = 0.0;
        int orders = 0;
        // Every set of ranks of the targets is equally likely.
        for (unsigned set = 0; set < 1U << candidates; ++set) {
          if (std::popcount(set) != targets) continue;
          std::vector<std::int32_t> ranks;
          for (std::int32_t rank = 0; rank < candidates; ++rank)
            if ((set >> rank & 1U) != 0) ranks.push_back(rank);
          sum += metric_of_user(metric, ranks, candidates);
          ++orders;
        }
        EXPECT_NEAR(expectation_of_random_order(metric, targets, candidates), sum / orders, 1e-13)
            << to_string(metric) << ", " << targets;
      }
    }
  }
  EXPECT_EQ(expectation_of_random_order(parse_metric("ndcg@5"), 0, candidates), 0.0);
}

TEST(MetricsOfLists, GiniAndCoverageEqualTheDefinition) {
  using Lists = std::vector<std::int64_t>;
  const Lists lists = {10, 7, 3, 0};
  EXPECT_DOUBLE_EQ(coverage(lists), 0.75);
  EXPECT_DOUBLE_EQ(gini(lists), 1.0 - 2.0 * 46.0 / 160.0);
  EXPECT_DOUBLE_EQ(gini(Lists{5, 5, 5}), 0.0);
  EXPECT_DOUBLE_EQ(gini(Lists{0, 9, 0, 0}), 0.75);
  EXPECT_EQ(gini(Lists{0, 0}), 0.0);
  EXPECT_EQ(coverage(std::vector<std::int64_t>{0, 0}), 0.0);
}

TEST(MetricsReference, ValuesMeansAndErrorsAreEqual) {
  const testing::ReferenceFile reference(VAECF_REFERENCE_DIRECTORY "/metrics_reference.h5");
  std::vector<Metric> metrics;
  const io::IdList names = reference.names("metrics");
  for (std::int64_t i = 0; i < names.size(); ++i) metrics.push_back(parse_metric(names.text(i)));
  int compared = 0;
  int without_target = 0;
  for (int number = 0; number < static_cast<int>(reference.number("blocks")); ++number) {
    const std::string block = "block_" + std::to_string(number) + "/";
    const Csr fold_in{reference.at<std::int64_t>(block + "fold_in_offsets"),
                      reference.at<std::int32_t>(block + "fold_in")};
    const Csr targets{reference.at<std::int64_t>(block + "targets_offsets"),
                      reference.at<std::int32_t>(block + "targets")};
    const auto scores = reference.at<float>(block + "scores");
    const auto values = reference.at(block + "values");
    const std::int64_t items = std::ssize(scores) / targets.rows();
    std::vector<MetricSums> sums(metrics.size());
    const std::vector<double> gain_of =
        inverse_propensities(reference.at<std::int64_t>(block + "train_users"));
    for (std::int64_t user = 0; user < targets.rows(); ++user) {
      const auto score = [&](std::int32_t item) {
        return scores.at(static_cast<std::size_t>(user * items + item));
      };
      std::vector<std::int32_t> ranks;
      std::vector<double> gains;
      for (const std::int32_t target : targets.view().row(user)) {
        gains.push_back(gain_of.at(static_cast<std::size_t>(target)));
        const auto masked = [&](std::int32_t item) {
          return std::ranges::binary_search(fold_in.view().row(user), item);
        };
        std::int32_t rank = 0;
        for (std::int32_t item = 0; item < items; ++item)
          rank += masked(target) || (!masked(item) && ranks_ahead(score(item), item, score(target), target));
        ranks.push_back(rank);
      }
      without_target += ranks.empty();
      for (std::size_t i = 0; i < metrics.size(); ++i) {
        const double expected = values.at(static_cast<std::size_t>(user) * metrics.size() + i);
        ASSERT_EQ(std::isnan(expected), ranks.empty());
        if (ranks.empty()) continue;
        const double value = metric_of_user(metrics[i], ranks, items, gains);
        sums[i].add(value);
        EXPECT_NEAR(value, expected, 1e-13) << to_string(metrics[i]) << " of user " << user;
        ++compared;
      }
    }
    const auto means = reference.at(block + "mean");
    const auto errors = reference.at(block + "error");
    for (std::size_t i = 0; i < metrics.size(); ++i) {
      EXPECT_NEAR(sums[i].mean(), means.at(i), 1e-13);
      EXPECT_NEAR(sums[i].standard_error(), errors.at(i), 1e-10);
    }
  }
  EXPECT_EQ(compared, 27 * 89);
  EXPECT_EQ(without_target, 17);
}

}  // namespace
}  // namespace vaecf::math
