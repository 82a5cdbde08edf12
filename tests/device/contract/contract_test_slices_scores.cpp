// Scores whose items are shared by a model-parallel group: ranks, metrics and top-k lists, and the
// item table of ELSA.
#include <vaecf/base/error.hpp>
#include <vaecf/math/metrics.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "device/contract/sliced_contract.hpp"

namespace vaecf::testing {
namespace {

using device::Activation;
using device::TensorKind;

constexpr float no_score = -std::numeric_limits<float>::infinity();

/// Scores and items of users, with the expected results.
struct ScoreCase {
  HostBatch batch;  ///< masked items
  Csr targets;
  Matrix hidden;
  Matrix weight;
  Matrix bias;
  Matrix scores() const { return reference::linear(hidden, weight, bias, Activation::identity); }
};

/// Returns the rank of each target: the number of items that the user does not have and that have a greater
/// score, or the same score and a lower index. NaN counts against the target.
std::vector<std::int32_t> ranks_of_targets(const ScoreCase& c, const Matrix& scores) {
  std::vector<std::int32_t> ranks;
  for (std::int64_t u = 0; u < scores.rows; ++u) {
    for (const std::int32_t target : c.targets.view().row(u)) {
      const double own = scores.at(u, target);
      std::int32_t rank = 0;
      for (std::int32_t item = 0; item < scores.columns; ++item) {
        if (item == target || c.batch.holds(u, item)) continue;
        const double score = scores.at(u, item);
        const bool ahead =
            std::isnan(own) || std::isnan(score) || score > own || (score == own && item < target);
        rank += ahead ? 1 : 0;
      }
      ranks.push_back(c.batch.holds(u, target) ? static_cast<std::int32_t>(scores.columns) : rank);
    }
  }
  return ranks;
}

class SlicedScores : public Sliced {
 protected:
  /// Makes a case of integers, so that scores are exact, with many ties within and across item slices.
  static ScoreCase whole_case(std::int64_t users, std::int64_t items, int item_slices) {
    return {sliced_batch(users, items, item_slices, 3), random_rows(users, items, 5, 12),
            whole_numbers(users, 7, 4, 2), whole_numbers(7, items, 1, 2), whole_numbers(1, items, 2, 3)};
  }

  /// Compares ranks, metrics, and lists of all item slices with those of all items. In lists, NaN is treated
  /// as minus infinity.
  void expect_scores(int item_slices, const ScoreCase& c, const std::vector<int>& lengths) {
    const std::int64_t users = c.batch.size();
    const Matrix of = c.scores();
    Matrix ordered = of;
    for (double& score : ordered.values) score = std::isnan(score) ? -INFINITY : score;
    const std::vector<std::int32_t> ranks = ranks_of_targets(c, of);
    const std::vector<math::Metric> metrics = {math::parse_metric("ndcg@10"), math::parse_metric("recall@5")};
    run(item_slices, [&](ItemSliceDevice& d) {
      const Range own = d.own(users);
      const TestLayer layer = d.make_item_slice(TensorKind::output_table, c.weight, c.bias);
      const auto batch = d.gather(c.batch, false);
      const auto hidden = d.part_of(c.hidden);
      const CsrView targets = c.targets.view();
      const auto begin = static_cast<std::size_t>(targets.offsets[own.begin]);
      const auto end = static_cast<std::size_t>(targets.offsets[own.end]);
      const std::vector<std::int32_t> expected(ranks.begin() + begin, ranks.begin() + end);
      std::vector<std::int32_t> found(expected.size(), -7);
      d.device().rank_targets(hidden, *batch, targets, layer.parameters, layer.layer, found);
      EXPECT_EQ(found, expected) << "item slice " << d.index();

      // Targets are rows of a larger set, after 3 users without any.
      Csr all_targets = c.targets;
      all_targets.offsets.insert(all_targets.offsets.begin(), 3, 0);
      const auto rows =
          d.device().make_user_rows(all_targets.view(), 0, c.batch.items, device::single_rank());
      const auto values = d.device().make_metric_values(metrics.size(), rows->rows());
      d.device().compute_metrics(hidden, *batch, *rows, {3, 3 + users}, layer.parameters, layer.layer,
                                 metrics, *values);
      std::vector<double> of_users(metrics.size() * static_cast<std::size_t>(users + 3));
      for (std::int64_t u = own.begin; u < own.end; ++u) {
        const std::vector<std::int32_t> mine(ranks.begin() + targets.offsets[u],
                                             ranks.begin() + targets.offsets[u + 1]);
        for (std::size_t m = 0; m < metrics.size() && !mine.empty(); ++m) {
          of_users[m * static_cast<std::size_t>(users + 3) + static_cast<std::size_t>(u + 3)] =
              math::metric_of_user(metrics[m], mine, c.batch.items);
        }
      }
      const std::vector<double> read = d.device().read_metrics(*values);
      ASSERT_EQ(read.size(), of_users.size());
      for (std::size_t i = 0; i < read.size(); ++i) EXPECT_NEAR(read[i], of_users[i], 1e-12) << i;

      for (const int k : lengths) {
        std::vector<std::int32_t> items(static_cast<std::size_t>(own.size() * k), -7);
        std::vector<float> scores(items.size(), -7.0F);
        d.device().top_k(hidden, *batch, layer.parameters, layer.layer, k, items, scores);
        for (std::int64_t u = own.begin; u < own.end; ++u) {
          std::vector<std::int32_t> order = reference::ranking(ordered, c.batch, u);
          order.resize(static_cast<std::size_t>(k), -1);
          const auto first = static_cast<std::size_t>((u - own.begin) * k);
          const std::vector<std::int32_t> list(items.begin() + first, items.begin() + first + k);
          ASSERT_EQ(list, order) << "user " << u << " of item slice " << d.index() << ", k " << k;
          for (int place = 0; place < k; ++place) {
            const std::int32_t item = order[static_cast<std::size_t>(place)];
            const float score = item < 0 ? no_score : static_cast<float>(of.at(u, item));
            const float listed = scores[first + static_cast<std::size_t>(place)];
            ASSERT_TRUE(listed == score || (std::isnan(listed) && std::isnan(score)))
                << listed << " " << score;
          }
        }
      }
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, SlicedScores, ::testing::ValuesIn(contract_devices()), contract_name);

TEST_P(SlicedScores, AreThoseOfAllItemsWithTiesAndMasks) {
  for (const int item_slices : item_slice_counts) {
    for (const std::int64_t items : {1, 31, 33, 257}) {
      for (const std::int64_t users : {0, 1, 2, 7, 33, 513}) {
        if (users == 513 && items > 33) continue;
        SCOPED_TRACE(format("{} item slices, {} users, {} items", item_slices, users, items));
        const ScoreCase c = whole_case(users, items, item_slices);
        // Longer than the list of any item slice, and than all items.
        expect_scores(item_slices, c, {1, 10, 40, 300});
      }
    }
  }
}

TEST_P(SlicedScores, LowerItemWinsTiesAcrossSlices) {
  for (const int item_slices : item_slice_counts) {
    SCOPED_TRACE(format("{} item slices", item_slices));
    ScoreCase c = whole_case(7, 100, item_slices);
    c.weight = Matrix(7, 100);
    c.bias = Matrix(1, 100);
    expect_scores(item_slices, c, {1, 7, 100});
  }
}

// NaN and infinite scores of one item slice, among them those of targets: they rank last, as minus infinity.
TEST_P(SlicedScores, NonFiniteScoresOfOneSlice) {
  for (const int item_slices : item_slice_counts) {
    for (const bool all_of_it : {false, true}) {
      SCOPED_TRACE(format("{} item slices, all of the item slice {}", item_slices, all_of_it));
      constexpr std::int64_t items = 60;
      ScoreCase c = whole_case(7, items, item_slices);
      for (std::int64_t i = item_slices - 1; i < items; i += item_slices) {
        if (!all_of_it && i % 7 != 0) continue;
        const std::int64_t kind = i / item_slices % 3;
        c.bias.at(0, i) = kind == 0 ? std::nan("") : kind == 1 ? INFINITY : -INFINITY;
      }
      c.targets = random_rows(7, items, 6);
      expect_scores(item_slices, c, {1, 10, items});
    }
  }
}

/// Gradients of ELSA's item table against those of all users' predictions for all items.
TEST_P(SlicedScores, ItemTableOfElsa) {
  struct Shape {
    std::int64_t users;
    std::int64_t items;
    std::int64_t width;
  };
  for (const int item_slices : item_slice_counts) {
    for (const auto& [users, items, width] :
         {Shape{0, 33, 7}, {1, 1, 1}, {2, 31, 7}, {7, 257, 9}, {33, 33, 7}, {257, 100, 33}, {33, 4500, 8}}) {
      SCOPED_TRACE(format("{} item slices, {} users, {} items, width {}", item_slices, users, items, width));
      const HostBatch all = sliced_batch(users, items, item_slices);
      const Matrix weight = random_matrix(items, width, 95);
      const auto expected = reference::cosine_loss(all, weight);
      const Matrix hidden = reference::sparse_linear(all, reference::normalize_rows(weight), Matrix(1, width),
                                                     Activation::identity, 1.0F, {});
      LossOfSlices losses(1);
      bool low_precision = false;
      run(item_slices, [&](ItemSliceDevice& d) {
        const ItemSlice mine = d.item_slice(items);
        TestLayer weights = d.make_input_table(rows_of(weight, mine));
        auto normalized =
            d.device().make_parameters(d.device().plan_parameters(std::vector<device::TensorSpec>{
                                           {"table", width, mine.count(), TensorKind::item_table, false},
                                           {"bias", 1, mine.count(), TensorKind::output_bias, false}}),
                                       0);
        const auto batch = d.gather(all);
        auto h = d.make_part(users, width);
        auto d_h = d.make_part(users, width);
        auto gram = d.device().make_matrix(width, width);
        auto d_gram = d.device().make_matrix(width, width);
        d.begin();
        ItemSliceDevice::Reports reports(d, weights);
        d.device().normalize_rows(weights.parameters, 0, normalized, 0);
        d.device().sparse_linear(*batch, normalized, {0, -1}, Activation::identity, 1.0F, d.step(), nullptr,
                                 h);
        d.device().table_gram(normalized, 0, gram);
        d.device().cosine_step(h, *batch, gram, d_h, d_gram, d.step());
        const std::vector<float> sums = d.read(h);
        d.device().sparse_linear_backward(*batch, {0, -1}, Activation::identity, 1.0F, h, d_h,
                                          d.backward(weights));
        d.device().normalize_rows_backward(0, normalized, 0, d_gram, d.backward(weights, reports.callback()));
        losses.add(0, d.losses());
        if (d.index() == 0) low_precision = d.low_precision();
        d.expect_near(sums, rows_of(hidden, d.own(users)), "h");
        // A gradient may be zero only because all rows of A have norm 1, which rounded ones do not.
        Tolerance allowed = d.tolerance();
        allowed.floor = d.low_precision() ? 1e-3 : 2e-6;
        d.expect_near(d.weight_gradient(weights), rows_of(expected.d_weight, mine), allowed, "d_weight");
        d.expect_zero_padding(weights.layout, weights.gradients);
        reports.check();
      });
      EXPECT_NEAR(losses.sums[0].nll, expected.loss, (low_precision ? 5e-3 : 5e-6) * (1.0 + expected.loss));
      EXPECT_EQ(losses.sums[0].users, users);
    }
  }
}

}  // namespace
}  // namespace vaecf::testing
