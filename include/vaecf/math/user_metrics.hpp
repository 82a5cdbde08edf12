#pragma once

#include <vaecf/base/host_device.hpp>
#include <vaecf/math/metrics.hpp>

#include <cmath>
#include <cstdint>

namespace vaecf::math {

// The metrics of one user. A new metric is a struct below, with its name and its
// function, and an entry in UserMetrics; configuration, evaluation and all devices use that table.
// docs/DATA.md defines the metrics for users.

/// Returns the contribution of a target at `rank` (from 0) to DCG. The base of the logarithm cancels in NDCG.
VAECF_HD inline double discounted_gain(std::int64_t rank) {
  return 1.0 / std::log2(static_cast<double>(rank + 2));
}

/// The targets of one user in the list of the first k items. Ranks start at 0.
template <class L>
struct RankedTargets {
  L& thread_group;
  const std::int32_t* ranks;  ///< ranks of the targets; k or more: not in the list
  std::int64_t count;         ///< number of targets, at least 1
  std::int64_t k;             ///< at most the number of items
  std::int64_t possible;      ///< maximum number of targets in the list: min(k, count)
  std::int64_t cutoff;        ///< k of the metric's name, which may exceed the number of items

  VAECF_HD std::int64_t hits() const {
    return thread_group.sum(count, [this](std::int64_t i) { return std::int64_t{ranks[i] < k}; });
  }
};

/// Normalized discounted cumulative gain: sum of 1 / log2(rank + 2) over the targets in the list, divided by
/// the largest possible sum.
struct Ndcg {
  static constexpr const char* name = "ndcg";
  template <class Targets>
  VAECF_HD static double of_user(const Targets& of) {
    const double dcg = of.thread_group.sum(
        of.count, [&of](std::int64_t i) { return of.ranks[i] < of.k ? discounted_gain(of.ranks[i]) : 0.0; });
    return dcg / of.thread_group.sum(of.possible, [](std::int64_t rank) { return discounted_gain(rank); });
  }
};

/// Number of targets in the list, divided by min(k, count).
struct Recall {
  static constexpr const char* name = "recall";
  template <class Targets>
  VAECF_HD static double of_user(const Targets& of) {
    return static_cast<double>(of.hits()) / static_cast<double>(of.possible);
  }
};

/// Number of targets in the list, divided by the number of all targets.
struct RecallN {
  static constexpr const char* name = "recall_n";
  template <class Targets>
  VAECF_HD static double of_user(const Targets& of) {
    return static_cast<double>(of.hits()) / static_cast<double>(of.count);
  }
};

/// 1 if any target is in the list, otherwise 0.
struct Hit {
  static constexpr const char* name = "hit";
  template <class Targets>
  VAECF_HD static double of_user(const Targets& of) {
    return of.hits() > 0 ? 1.0 : 0.0;
  }
};

/// Reciprocal rank: 1 / (rank + 1) of the first target, or 0 if it is not in the list.
struct Mrr {
  static constexpr const char* name = "mrr";
  template <class Targets>
  VAECF_HD static double of_user(const Targets& of) {
    // The first target is the one that no other target ranks ahead of.
    return of.thread_group.sum(of.count, [&of](std::int64_t i) {
      if (of.ranks[i] >= of.k) return 0.0;
      for (std::int64_t j = 0; j < of.count; ++j) {
        if (of.ranks[j] < of.ranks[i]) return 0.0;
      }
      return 1.0 / static_cast<double>(of.ranks[i] + std::int64_t{1});
    });
  }
};

/// Average precision: sum over the targets in the list of (targets up to this rank) / (rank + 1), divided by
/// min(k, count).
struct Map {
  static constexpr const char* name = "map";
  template <class Targets>
  VAECF_HD static double of_user(const Targets& of) {
    // At most k targets are in the list, so this takes at most k * count steps.
    const double precisions = of.thread_group.sum(of.count, [&of](std::int64_t i) {
      if (of.ranks[i] >= of.k) return 0.0;
      std::int64_t up_to_here = 0;
      for (std::int64_t j = 0; j < of.count; ++j) up_to_here += of.ranks[j] <= of.ranks[i] ? 1 : 0;
      return static_cast<double>(up_to_here) / static_cast<double>(of.ranks[i] + std::int64_t{1});
    });
    return precisions / static_cast<double>(of.possible);
  }
};

/// Number of targets in the list, divided by the cut-off, even if fewer items are left.
struct Precision {
  static constexpr const char* name = "precision";
  template <class Targets>
  VAECF_HD static double of_user(const Targets& of) {
    return static_cast<double>(of.hits()) / static_cast<double>(of.cutoff);
  }
};

/// The table of all metrics that are means over users.
template <class... M>
struct MetricTable {
  static constexpr const char* names[] = {M::name...};

  /// Returns the metric at index `kind` of the table for one user.
  template <class Targets>
  VAECF_HD static double of_user(int kind, const Targets& targets) {
    double value = 0.0;
    int number = 0;
    ((number++ == kind ? void(value = M::of_user(targets)) : void()), ...);
    return value;
  }
};
using UserMetrics = MetricTable<Ndcg, Recall, RecallN, Hit, Mrr, Map, Precision>;

/// Returns `metric` of a user whose `count` targets have `ranks` among `items` items, in fp64. Ranks of
/// `items` or more (masked targets) never count. Returns 0 if there is no target.
template <class L>
VAECF_HD double user_metric(L& thread_group, const Metric& metric, const std::int32_t* ranks,
                            std::int64_t count, std::int64_t items) {
  const std::int64_t k = metric.k < items ? metric.k : items;
  const std::int64_t possible = k < count ? k : count;
  if (possible == 0) return 0.0;
  return UserMetrics::of_user(metric.kind,
                              RankedTargets<L>{thread_group, ranks, count, k, possible, metric.k});
}

}  // namespace vaecf::math
