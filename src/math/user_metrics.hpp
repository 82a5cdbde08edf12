#pragma once

#include <vaecf/math/metrics.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

namespace vaecf::math {

// The metrics of one user. A new metric is a struct below, with its name and its function, and an entry in
// UserMetrics; configuration and evaluation use that table. docs/METRICS.md defines the metrics for users.

/// Returns the contribution of a target at `rank` (from 0) to DCG. The base of the logarithm cancels in NDCG.
inline double discounted_gain(std::int64_t rank) {
  return 1.0 / std::log2(static_cast<double>(rank + 2));
}

/// The targets of one user in the list of the first k items. Ranks start at 0.
struct RankedTargets {
  std::span<const std::int32_t> ranks;  ///< ranks of the targets; k or more: not in the list
  std::span<const double> gains;        ///< 1 / propensity of the targets; empty: all are 1
  std::int64_t k;                       ///< at most the number of items
  std::int64_t possible;                ///< maximum number of targets in the list: min(k, targets)
  std::int64_t cutoff;                  ///< k of the metric's name, which may exceed the number of items

  bool is_hit(std::size_t target) const { return ranks[target] < k; }
  std::int64_t hits() const {
    return std::ranges::count_if(ranks, [&](std::int32_t rank) { return rank < k; });
  }
  double count() const { return static_cast<double>(ranks.size()); }
  double gain(std::size_t target) const { return gains.empty() ? 1.0 : gains[target]; }
  /// Returns the sum of term(target) over the targets in the list.
  template <class Term>
  double sum_of_hits(const Term& term) const {
    double sum = 0.0;
    for (std::size_t target = 0; target < ranks.size(); ++target)
      if (is_hit(target)) sum += term(target);
    return sum;
  }
  /// Returns the sum of term(rank) times the gain at `rank` if the list begins with the targets, those of the
  /// largest gain first.
  template <class Term>
  double ideal(const Term& term) const {
    std::vector<double> falling(gains.begin(), gains.end());
    falling.resize(ranks.size(), 1.0);
    std::ranges::sort(falling, std::greater());
    double sum = 0.0;
    for (std::int64_t rank = 0; rank < possible; ++rank) sum += falling[rank] * term(rank);
    return sum;
  }
};

/// Normalized discounted cumulative gain: sum of 1 / log2(rank + 2) over the targets in the list, divided by
/// the largest possible sum.
struct Ndcg {
  static constexpr const char* name = "ndcg";
  static double of_user(const RankedTargets& of) {
    double ideal = 0.0;
    for (std::int64_t rank = 0; rank < of.possible; ++rank) ideal += discounted_gain(rank);
    return of.sum_of_hits([&](std::size_t t) { return discounted_gain(of.ranks[t]); }) / ideal;
  }
};

/// Number of targets in the list, divided by min(k, count).
struct Recall {
  static constexpr const char* name = "recall";
  static double of_user(const RankedTargets& of) {
    return static_cast<double>(of.hits()) / static_cast<double>(of.possible);
  }
};

/// Number of targets in the list, divided by the number of all targets.
struct RecallN {
  static constexpr const char* name = "recall_n";
  static double of_user(const RankedTargets& of) { return static_cast<double>(of.hits()) / of.count(); }
};

/// 1 if any target is in the list, otherwise 0.
struct Hit {
  static constexpr const char* name = "hit";
  static double of_user(const RankedTargets& of) { return of.hits() > 0 ? 1.0 : 0.0; }
};

/// Reciprocal rank: 1 / (rank + 1) of the first target, or 0 if it is not in the list.
struct Mrr {
  static constexpr const char* name = "mrr";
  static double of_user(const RankedTargets& of) {
    const std::int32_t first = *std::ranges::min_element(of.ranks);
    return first < of.k ? 1.0 / (static_cast<double>(first) + 1.0) : 0.0;
  }
};

/// Average precision: sum over the targets in the list of (targets up to this rank) / (rank + 1), divided by
/// min(k, count).
struct Map {
  static constexpr const char* name = "map";
  static double of_user(const RankedTargets& of) {
    const double precisions = of.sum_of_hits([&](std::size_t t) {
      const auto up_to_here =
          std::ranges::count_if(of.ranks, [&](std::int32_t rank) { return rank <= of.ranks[t]; });
      return static_cast<double>(up_to_here) / (static_cast<double>(of.ranks[t]) + 1.0);
    });
    return precisions / static_cast<double>(of.possible);
  }
};

/// Number of targets in the list, divided by the cut-off, even if fewer items are left.
struct Precision {
  static constexpr const char* name = "precision";
  static double of_user(const RankedTargets& of) {
    return static_cast<double>(of.hits()) / static_cast<double>(of.cutoff);
  }
};

/// Sum of the gains of the targets in the list, divided by the largest possible sum.
struct UnbiasedRecall {
  static constexpr const char* name = "unbiased_recall";
  static double of_user(const RankedTargets& of) {
    return of.sum_of_hits([&](std::size_t t) { return of.gain(t); }) /
           of.ideal([](std::int64_t) { return 1.0; });
  }
};

/// NDCG with the gains of the targets.
struct UnbiasedNdcg {
  static constexpr const char* name = "unbiased_ndcg";
  static double of_user(const RankedTargets& of) {
    return of.sum_of_hits([&](std::size_t t) { return of.gain(t) * discounted_gain(of.ranks[t]); }) /
           of.ideal(discounted_gain);
  }
};

/// The table of all metrics that are means over users.
template <class... M>
struct MetricTable {
  static constexpr const char* names[] = {M::name...};

  /// Returns the metric at index `kind` of the table for one user.
  static double of_user(int kind, const RankedTargets& targets) {
    double value = 0.0;
    int number = 0;
    ((number++ == kind ? void(value = M::of_user(targets)) : void()), ...);
    return value;
  }
};
using UserMetrics =
    MetricTable<Ndcg, Recall, RecallN, Hit, Mrr, Map, Precision, UnbiasedRecall, UnbiasedNdcg>;

}  // namespace vaecf::math
