#include <gtest/gtest.h>
#include <vaecf/base/error.hpp>
#include <vaecf/math/metrics.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::math {
namespace {

TEST(MetricName, ReadsAndWrites) {
  EXPECT_EQ(parse_metric("ndcg@100"), (Metric{MetricKind::ndcg, 100}));
  EXPECT_EQ(parse_metric("recall@20"), (Metric{MetricKind::recall, 20}));
  for (const char* name : {"ndcg@1", "recall@2147483647"}) EXPECT_EQ(to_string(parse_metric(name)), name);
}

TEST(MetricName, BadNamesAreInputErrors) {
  for (const char* name :
       {"", "ndcg", "ndcg@", "@10", "NDCG@10", "precision@10", "ndcg@0", "ndcg@-5", "ndcg@1.5", "ndcg@10 ",
        "ndcg@ 10", "ndcg@ten", "recall@2147483648", "ndcg@10@20"}) {
    EXPECT_THROW(parse_metric(name), InputError) << name;
  }
  try {
    parse_metric("ndgc@100");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("ndgc@100"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("recall@K"), std::string::npos);
  }
}

TEST(Ndcg, ByHand) {
  const std::vector<std::int32_t> ranks = {0, 2};
  const double ideal = 1.0 + 1.0 / std::log2(3.0);
  EXPECT_DOUBLE_EQ(ndcg_at(10, ranks), (1.0 + 0.5) / ideal);
  EXPECT_DOUBLE_EQ(ndcg_at(2, ranks), 1.0 / ideal);
  EXPECT_DOUBLE_EQ(ndcg_at(1, ranks), 1.0);  // the ideal list is one long, too
  EXPECT_DOUBLE_EQ(ndcg_at(3, std::vector<std::int32_t>{3, 4, 5}), 0.0);
  EXPECT_DOUBLE_EQ(ndcg_at(3, std::vector<std::int32_t>{2, 0, 1}), 1.0);
}

TEST(Recall, ByHand) {
  EXPECT_DOUBLE_EQ(recall_at(20, std::vector<std::int32_t>{0, 19, 20, 500}), 0.5);
  EXPECT_DOUBLE_EQ(recall_at(2, std::vector<std::int32_t>{0, 1, 2, 3, 4}), 1.0);  // over min(k, targets)
  EXPECT_DOUBLE_EQ(recall_at(2, std::vector<std::int32_t>{1, 2, 3}), 0.5);
}

TEST(Metrics, WithoutTargets) {
  EXPECT_EQ(ndcg_at(10, {}), 0.0);
  EXPECT_EQ(recall_at(10, {}), 0.0);
}

TEST(Metrics, MaskedTargetNeverCounts) {
  // 50 items, cut-off 100: rank 50 says "masked", though it is below the cut-off.
  const std::vector<std::int32_t> ranks = {50};
  EXPECT_EQ(metric_of_user({MetricKind::ndcg, 100}, ranks, 50), 0.0);
  EXPECT_EQ(metric_of_user({MetricKind::recall, 100}, ranks, 50), 0.0);
  EXPECT_EQ(metric_of_user({MetricKind::recall, 100}, std::vector<std::int32_t>{49}, 50), 1.0);
}

TEST(MetricSums, MeanAndStandardErrorInAnySplit) {
  MetricSums whole;
  MetricSums left;
  MetricSums right;
  const std::vector<double> values = {0.0, 0.25, 0.5, 1.0, 1.0, 0.125, 0.75};
  for (std::size_t i = 0; i < values.size(); ++i) {
    whole.add(values[i]);
    (i < 3 ? left : right).add(values[i]);
  }
  left.add(right);
  EXPECT_DOUBLE_EQ(left.sum, whole.sum);
  EXPECT_DOUBLE_EQ(left.mean(), whole.mean());
  double variance = 0.0;
  for (const double value : values) variance += (value - whole.mean()) * (value - whole.mean()) / 7.0;
  EXPECT_NEAR(whole.standard_error(), std::sqrt(variance / 7.0), 1e-14);
  EXPECT_EQ(MetricSums{}.mean(), 0.0);
  EXPECT_EQ(MetricSums{}.standard_error(), 0.0);
}

TEST(MetricSums, EqualValuesHaveNoError) {
  MetricSums sums;
  for (int i = 0; i < 1000; ++i) sums.add(0.1);
  EXPECT_NEAR(sums.standard_error(), 0.0, 1e-9);
}

}  // namespace
}  // namespace vaecf::math
