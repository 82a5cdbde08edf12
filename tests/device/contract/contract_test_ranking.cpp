// Ranks and top-k lists, of items that a model-parallel group may share.
#include <vaecf/base/text.hpp>
#include <vaecf/math/ranking.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device/contract/sliced_contract.hpp"

namespace vaecf::testing {
namespace {

using device::Activation;
using device::TensorKind;

/// Users with masked items, targets, and hidden units, and an output layer.
struct ScoreCase {
  HostBatch batch;
  Csr targets;
  Matrix hidden;
  Matrix weight;
  Matrix bias;
  Matrix scores() const { return reference::linear(hidden, weight, bias, Activation::identity); }
};

/// Makes a case of integers, so that scores are exact in every precision, with many ties within and across
/// item slices. Results must be equal, not close. Some targets are masked, and some users have none.
ScoreCase whole_case(std::int64_t users, std::int64_t items, int item_slices, std::int64_t width = 7,
                     int range = 2) {
  return {sliced_batch(users, items, item_slices, 3), random_rows(users, items, 5, 12),
          whole_numbers(users, width, 4, range), whole_numbers(width, items, 1, range),
          whole_numbers(1, items, 2, 3)};
}
/// The device of an item slice with its part of a ScoreCase.
struct Scored {
  Scored(ItemSliceDevice& device, const ScoreCase& c)
      : d(device),
        layer(d.make_item_slice(TensorKind::output_table, c.weight, c.bias)),
        batch(d.gather(c.batch, false)),
        hidden(d.part_of(c.hidden)),
        own(d.own(c.batch.size())),
        batch_items(c.batch.items) {}

  /// Returns the ranks of rows `rows` of `targets`, those of this rank's users, and 0 for all other targets.
  std::vector<std::int32_t> rank(const Csr& targets, Range rows) {
    const auto held = d.device().make_user_rows(targets.view(), 0, batch_items, device::single_rank());
    const auto ranks = d.device().make_target_ranks(targets.view().entries());
    d.device().rank_targets(hidden, *batch, *held, rows, layer.parameters, layer.layer, *ranks);
    return d.device().read_ranks(*ranks);
  }
  std::pair<std::vector<std::int32_t>, std::vector<float>> top(int k) {
    std::vector<std::int32_t> items(static_cast<std::size_t>(own.size() * k), -7);
    std::vector<float> scores(items.size(), -7.0F);
    d.device().top_k(hidden, *batch, layer.parameters, layer.layer, k, items, scores);
    return {items, scores};
  }

  ItemSliceDevice& d;
  TestLayer layer;
  std::unique_ptr<device::Batch> batch;
  device::Matrix hidden;
  Range own;
  std::int64_t batch_items;
};

class Ranking : public Sliced {
 protected:
  /// Compares ranks and lists of all item slices with those of all items.
  void expect_scores(int item_slices, const ScoreCase& c, const std::vector<int>& lengths) {
    const std::int64_t users = c.batch.size();
    const Matrix of = c.scores();
    // Targets are rows of a larger set, after one user with a target and two without any.
    Csr all_targets = c.targets;
    for (std::int64_t& offset : all_targets.offsets) ++offset;
    all_targets.offsets.insert(all_targets.offsets.begin(), {0, 1, 1});
    all_targets.columns.insert(all_targets.columns.begin(), 0);
    const CsrView targets = all_targets.view().subset({3, users + 3});
    const std::vector<std::int32_t> ranks = reference::compute_target_ranks(of, c.batch, targets);
    std::vector<std::vector<std::int32_t>> orders;
    for (std::int64_t u = 0; u < users; ++u) orders.push_back(reference::ranking(of, c.batch, u));
    run(item_slices, [&](ItemSliceDevice& d) {
      Scored mine(d, c);
      const Range own = mine.own;
      std::vector<std::int32_t> expected(all_targets.columns.size(), 0);
      const std::int64_t before = targets.subset({0, own.begin}).entries();
      std::copy_n(ranks.begin() + before, targets.subset(own).entries(), expected.begin() + 1 + before);
      EXPECT_EQ(mine.rank(all_targets, {3, 3 + users}), expected) << "item slice " << d.index();

      for (const int k : lengths) {
        const auto [items, scores] = mine.top(k);
        for (std::int64_t u = own.begin; u < own.end; ++u) {
          std::vector<std::int32_t> order = orders[static_cast<std::size_t>(u)];
          order.resize(static_cast<std::size_t>(k), -1);
          const auto first = static_cast<std::size_t>((u - own.begin) * k);
          const std::vector<std::int32_t> list(items.begin() + first, items.begin() + first + k);
          ASSERT_EQ(list, order) << "user " << u << " of item slice " << d.index() << ", k " << k;
          for (int place = 0; place < k; ++place) {
            const std::int32_t item = order[static_cast<std::size_t>(place)];
            const float score =
                item < 0 ? -std::numeric_limits<float>::infinity() : static_cast<float>(of.at(u, item));
            const float listed = scores[first + static_cast<std::size_t>(place)];
            ASSERT_TRUE(listed == score || (std::isnan(listed) && std::isnan(score)))
                << listed << " " << score;
          }
        }
      }
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Ranking, ::testing::ValuesIn(contract_devices()), contract_name);

TEST_P(Ranking, AreThoseOfAllItemsWithTiesAndMasks) {
  std::vector<TableShape> shapes;
  for (const std::int64_t items : {1, 31, 33, 257}) {
    for (const std::int64_t users : {0, 1, 2, 7, 33}) shapes.push_back({users, items, 7});
  }
  // 513: more users than any device scores at a time.
  for (const TableShape& shape :
       {TableShape{513, 31, 7}, {31, 1000, 33, true}, {32, 33, 7, true}, {257, 33, 7, true}})
    shapes.push_back(shape);
  for_each_shape(shapes, [&](int item_slices, const TableShape& shape) {
    // Lists longer than that of any item slice, and than all items.
    const std::vector<int> lengths = shape.one_item_slice ? std::vector{40} : std::vector{1, 10, 40, 300};
    expect_scores(item_slices, whole_case(shape.users, shape.items, item_slices, shape.width), lengths);
  });
  // Lists of more entries than a device may sort at a time, without targets.
  ScoreCase many = whole_case(110, 20108, 1, 5, 9);
  many.targets = {std::vector<std::int64_t>(111), {}};
  expect_scores(1, many, {100});
}

TEST_P(Ranking, LowerItemWinsTies) {
  for (const int item_slices : item_slice_counts()) {
    SCOPED_TRACE(format("{} item slices", item_slices));
    ScoreCase c = whole_case(7, 257, item_slices);
    c.weight = Matrix(7, 257);
    c.bias = Matrix(1, 257);
    expect_scores(item_slices, c, {1, 7, 257});
  }
}

// NaN and infinite scores of one item slice, among them those of targets: in lists, NaN is as minus infinity.
TEST_P(Ranking, NonFiniteScoresComeLast) {
  for (const int item_slices : item_slice_counts()) {
    for (const bool all_of_it : {false, true}) {
      SCOPED_TRACE(format("{} item slices, all of the item slice {}", item_slices, all_of_it));
      constexpr std::int64_t items = 300;
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

// Random scores, which devices round. A rank may differ from that of fp64 by the number of items with almost
// equal scores. Ranks and lists use the same scores: the item at index p of top_k has rank p.
TEST_P(Ranking, RoundedScores) {
  constexpr std::int64_t users = 33;
  constexpr std::int64_t items = 2000;
  constexpr int k = 50;
  const ScoreCase c{sliced_batch(users, items, 1, 3), random_rows(users, items, 5, 12),
                    random_matrix(users, 200, 4), random_matrix(200, items, 92, 0.07F),
                    random_matrix(1, items, 93, 0.5F)};
  const Matrix scores = c.scores();
  run(1, [&](ItemSliceDevice& d) {
    Scored mine(d, c);
    std::vector<std::int32_t> ranks = mine.rank(c.targets, {0, users});
    const double margin = d.low_precision() ? 0.05 : 2e-5;
    std::size_t entry = 0;
    for (std::int64_t row = 0; row < users; ++row) {
      std::vector<double> ranked;  // all items that the user does not have, worst first
      for (std::int32_t i = 0; i < items; ++i) {
        if (!c.batch.holds(row, i)) ranked.push_back(scores.at(row, i));
      }
      std::sort(ranked.begin(), ranked.end());
      const auto better_than = [&](double score) {
        return ranked.end() - std::upper_bound(ranked.begin(), ranked.end(), score);
      };
      for (const std::int32_t target : c.targets.view().row(row)) {
        const std::int32_t got = ranks[entry++];
        if (c.batch.holds(row, target)) {
          EXPECT_EQ(got, items);
          continue;
        }
        const double score = scores.at(row, target);
        EXPECT_GE(got, better_than(score + margin));
        EXPECT_LE(got, better_than(score - margin) - 1) << "the target does not rank ahead of itself";
      }
    }

    const std::vector<std::int32_t> best = mine.top(k).first;
    Csr listed;
    for (std::int64_t row = 0; row < users; ++row) {
      const auto first = best.begin() + row * k;
      std::copy_if(first, first + k, std::back_inserter(listed.columns),
                   [](std::int32_t item) { return item >= 0; });
      std::sort(listed.columns.begin() + listed.offsets.back(), listed.columns.end());
      listed.offsets.push_back(std::ssize(listed.columns));
    }
    ranks = mine.rank(listed, {0, users});
    for (std::int64_t row = 0; row < users; ++row) {
      for (std::int64_t i = listed.offsets[row]; i < listed.offsets[row + 1]; ++i) {
        ASSERT_LT(ranks[i], k);
        ASSERT_EQ(best[static_cast<std::size_t>(row * k + ranks[i])], listed.columns[i]);
      }
    }
  });
}

// Batches of several sizes, whose targets are rows of a larger set. Nothing between the calls waits for the
// device, so targets being copied must not be overwritten.
TEST_P(Ranking, RanksOfBatchesAreAtTheirPlaces) {
  constexpr std::int64_t items = 61;
  const Csr all = random_rows(1000, items, 5, 30);
  std::vector<ScoreCase> cases;
  for (const std::int64_t users : {33, 0, 1, 600, 40, 40, 40})
    cases.push_back(whole_case(users, items, 1, 5));
  std::vector<std::int32_t> expected(all.columns.size(), 0);
  std::int64_t begin = 11;
  for (const ScoreCase& c : cases) {
    const CsrView targets = all.view().subset({begin, begin + c.batch.size()});
    if (c.batch.size() > 0)
      std::ranges::copy(reference::compute_target_ranks(c.scores(), c.batch, targets),
                        expected.begin() + targets.offsets[0]);
    begin += c.batch.size();
  }
  run(1, [&](ItemSliceDevice& d) {
    std::vector<Scored> scored;
    for (const ScoreCase& c : cases) scored.emplace_back(d, c);
    const auto held = d.device().make_user_rows(all.view(), 0, items, device::single_rank());
    const auto ranks = d.device().make_target_ranks(all.view().entries());
    for (int again = 0; again < 3; ++again) {
      std::int64_t first = 11;
      for (const Scored& part : scored) {
        if (again == 1) break;  // reading changes nothing
        d.device().rank_targets(part.hidden, *part.batch, *held, {first, first + part.own.size()},
                                part.layer.parameters, part.layer.layer, *ranks);
        first += part.own.size();
      }
      EXPECT_EQ(d.device().read_ranks(*ranks), expected);
    }
    Scored three(d, whole_case(3, items, 1, 5));
    EXPECT_EQ(three.rank(Csr{{0, 0, 0, 0}, {}}, {0, 3}), std::vector<std::int32_t>());
  });
}

}  // namespace
}  // namespace vaecf::testing
