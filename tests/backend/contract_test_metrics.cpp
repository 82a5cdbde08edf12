// Metrics made where the device computes, and what only shows with many users, targets or places.
#include "backend/contract.hpp"

#include <vaecf/base/format.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace vaecf::testing {
namespace {

using backend::Activation;
using backend::TensorKind;

constexpr std::int64_t items = 61;
constexpr std::int64_t width = 5;

class HeldOut : public LayerContract {
 protected:
  /// Whole numbers: exact scores in every precision, with ties in plenty.
  TestLayer whole_layer() {
    return make_layer(TensorKind::output_table, whole_numbers(width, items, 1, 2),
                      whole_numbers(1, items, 2, 3));
  }
  Matrix scores(const Matrix& hidden, const TestLayer& layer) const {
    return reference::linear(hidden, layer.weight, layer.bias, Activation::identity);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, HeldOut, ::testing::ValuesIn(contract_devices()), contract_name);

const std::vector<math::Metric> metrics = [] {
  std::vector<math::Metric> all;
  for (const char* name :
       {"ndcg@100", "ndcg@3", "recall@5", "recall@1000", "recall_n@5", "hit@5", "mrr@100", "map@100"})
    all.push_back(math::parse_metric(name));
  return all;
}();

/// Adds up what the users' ranks give.
void add_up(std::span<const std::int32_t> ranks, CsrView targets, std::vector<math::MetricSums>& sums) {
  for (std::int64_t row = 0; row < targets.rows(); ++row) {
    const auto mine = ranks.subspan(static_cast<std::size_t>(targets.offsets[row] - targets.offsets[0]),
                                    static_cast<std::size_t>(targets.row_size(row)));
    if (mine.empty()) continue;
    for (std::size_t m = 0; m < metrics.size(); ++m) {
      sums[m].add(math::metric_of_user(metrics[m], mine, items));
    }
  }
}

// Rows of a larger set of targets, over batches of several sizes into one total.
TEST_P(HeldOut, MetricsAddUpOverBatches) {
  const TestLayer layer = whole_layer();
  const Csr all = random_rows(700, items, 5, 30);
  const auto held = device().hold_rows(all.view(), 0, items);
  const auto totals = device().make_metric_totals(metrics.size());
  const auto hidden = device().make_activations(600, width);
  std::vector<math::MetricSums> expected(metrics.size());
  TestBatch batch;
  std::int64_t begin = 11;
  for (const std::int64_t users : {std::int64_t{33}, std::int64_t{0}, std::int64_t{1}, std::int64_t{600}}) {
    const Range rows{begin, begin + users};
    begin += users;
    gather(random_rows(users, items, 3), items, false, batch);
    const Matrix values = whole_numbers(users, width, 40 + static_cast<std::uint64_t>(users), 2);
    write(*hidden, values);
    device().add_metrics(*hidden, *batch.device, *held, rows, *layer.parameters, layer.layer, metrics,
                         *totals);
    const CsrView targets{
        std::span(all.offsets)
            .subspan(static_cast<std::size_t>(rows.begin), static_cast<std::size_t>(users) + 1),
        std::span(all.columns)
            .subspan(static_cast<std::size_t>(all.offsets[static_cast<std::size_t>(rows.begin)]))};
    add_up(reference::rank_held_out(scores(values, layer), batch.host, targets), targets, expected);
  }
  for (int again = 0; again < 2; ++again) {  // reading changes nothing
    const std::vector<math::MetricSums> found = device().read_metrics(*totals);
    ASSERT_EQ(found.size(), metrics.size());
    for (std::size_t m = 0; m < metrics.size(); ++m) {
      SCOPED_TRACE(math::to_string(metrics[m]));
      EXPECT_EQ(found[m].users, expected[m].users);
      EXPECT_NEAR(found[m].sum, expected[m].sum, 1e-9);
      EXPECT_NEAR(found[m].sum_of_squares, expected[m].sum_of_squares, 1e-9);
    }
  }
  EXPECT_GT(expected[0].users, 400);
  EXPECT_LT(expected[0].users, 634);  // some have no target
}

// Nothing between the calls waits for the device: targets on their way there must not be overwritten.
TEST_P(HeldOut, MetricsOneAfterTheOther) {
  const std::int64_t users = 40;
  const TestLayer layer = whole_layer();
  const Csr all = random_rows(3 * users, items, 5, 30);
  const auto held = device().hold_rows(all.view(), 0, items);
  const auto totals = device().make_metric_totals(metrics.size());
  const Matrix values = whole_numbers(users, width, 4, 2);
  const auto hidden = activations(values);
  TestBatch batch;
  gather(random_rows(users, items, 3), items, false, batch);
  std::vector<math::MetricSums> expected(metrics.size());
  for (std::int64_t begin = 0; begin < 3 * users; begin += users) {
    device().add_metrics(*hidden, *batch.device, *held, {begin, begin + users}, *layer.parameters,
                         layer.layer, metrics, *totals);
    const auto first = static_cast<std::size_t>(begin);
    const CsrView targets{std::span(all.offsets).subspan(first, static_cast<std::size_t>(users) + 1),
                          std::span(all.columns).subspan(static_cast<std::size_t>(all.offsets[first]))};
    add_up(reference::rank_held_out(scores(values, layer), batch.host, targets), targets, expected);
  }
  const std::vector<math::MetricSums> found = device().read_metrics(*totals);
  for (std::size_t m = 0; m < metrics.size(); ++m) {
    EXPECT_EQ(found[m].users, expected[m].users);
    EXPECT_NEAR(found[m].sum, expected[m].sum, 1e-9);
  }
}

TEST_P(HeldOut, MetricsOfNobodyAreNothing) {
  const TestLayer layer = whole_layer();
  const Csr none{{0, 0, 0, 0}, {}};
  const auto held = device().hold_rows(none.view(), 0, items);
  const auto totals = device().make_metric_totals(metrics.size());
  const auto hidden = activations(whole_numbers(3, width, 4, 2));
  TestBatch batch;
  gather(random_rows(3, items, 3), items, false, batch);
  device().add_metrics(*hidden, *batch.device, *held, {0, 3}, *layer.parameters, layer.layer, metrics,
                       *totals);
  for (const math::MetricSums& sums : device().read_metrics(*totals)) {
    EXPECT_EQ(sums.users, 0);
    EXPECT_EQ(sums.sum, 0.0);
    EXPECT_EQ(sums.sum_of_squares, 0.0);
  }
}

// More users than any device scores at a time; one user's targets are all items.
TEST_P(HeldOut, RanksOfManyUsersAndTargets) {
  const std::int64_t users = 1100;
  const TestLayer layer = whole_layer();
  const Matrix values = whole_numbers(users, width, 4, 2);
  const auto hidden = activations(values);
  TestBatch batch;
  gather(random_rows(users, items, 3, 8), items, false, batch);
  const Csr targets = random_rows(users, items, 5, 40);
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(targets.view().entries()), -7);
  device().rank_held_out(*hidden, *batch.device, targets.view(), *layer.parameters, layer.layer, ranks);
  EXPECT_EQ(ranks, reference::rank_held_out(scores(values, layer), batch.host, targets.view()));
}

// All items of many users, in order: as many places as items, and more.
TEST_P(HeldOut, TopKOfEverything) {
  const std::int64_t users = 700;
  const TestLayer layer = whole_layer();
  const Matrix values = whole_numbers(users, width, 4, 2);
  const auto hidden = activations(values);
  TestBatch batch;
  gather(random_rows(users, items, 3), items, false, batch);
  const Matrix expected = scores(values, layer);
  for (const int k : {static_cast<int>(items), static_cast<int>(items) + 3}) {
    std::vector<std::int32_t> best(static_cast<std::size_t>(users * k), -7);
    std::vector<float> best_scores(best.size(), -7.0F);
    device().top_k(*hidden, *batch.device, *layer.parameters, layer.layer, k, best, best_scores);
    for (std::int64_t row = 0; row < users; ++row) {
      std::vector<std::int32_t> order = reference::ranking(expected, batch.host, row);
      order.resize(static_cast<std::size_t>(k), -1);
      for (int place = 0; place < k; ++place) {
        const auto at = static_cast<std::size_t>(row * k + place);
        const std::int32_t item = order[static_cast<std::size_t>(place)];
        ASSERT_EQ(best[at], item) << format("k {} row {} place {}", k, row, place);
        ASSERT_EQ(best_scores[at], item < 0 ? -std::numeric_limits<float>::infinity()
                                            : static_cast<float>(expected.at(row, item)));
      }
    }
  }
}

// More entries than a device may want to sort at a time.
TEST_P(HeldOut, TopKRealSize) {
  const std::int64_t users = 110;
  const std::int64_t all_items = 20108;
  const int k = 100;
  const TestLayer layer = make_layer(TensorKind::output_table, whole_numbers(width, all_items, 1, 9),
                                     whole_numbers(1, all_items, 2, 3));
  const Matrix values = whole_numbers(users, width, 4, 9);
  const auto hidden = activations(values);
  TestBatch batch;
  gather(random_rows(users, all_items, 3, 300), all_items, false, batch);
  std::vector<std::int32_t> best(static_cast<std::size_t>(users * k), -7);
  std::vector<float> best_scores(best.size());
  device().top_k(*hidden, *batch.device, *layer.parameters, layer.layer, k, best, best_scores);
  const Matrix expected = scores(values, layer);
  for (std::int64_t row = 0; row < users; ++row) {
    std::vector<std::int32_t> order = reference::ranking(expected, batch.host, row);
    order.resize(k, -1);
    ASSERT_TRUE(std::equal(order.begin(), order.end(), best.begin() + row * k)) << "row " << row;
  }
}

}  // namespace
}  // namespace vaecf::testing
