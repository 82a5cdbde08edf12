#pragma once

#include <vaecf/base/host_device.hpp>
#include <vaecf/math/elementwise.hpp>

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Ranking metrics in fp64, computed from the ranks of held-out items (Liang et al. 2018, section 4.2). The
/// rank of an item is the number of unmasked items that rank ahead of it, so neither a sort nor a top-k is
/// needed.
namespace vaecf::math {

/// A metric with its cut-off, for example ndcg@100.
struct Metric {
  // Kinds of metrics of recommended lists, which cannot be computed from ranks of targets. The first two
  // depend on the lists of all users (catalog_metric); the others are means over users.
  static constexpr int coverage = -1;
  static constexpr int gini = -2;
  static constexpr int popularity = -3;
  static constexpr int tail = -4;
  static constexpr int novelty = -5;

  int kind = 0;  ///< index in the table of user metrics, or one of the kinds above
  std::int32_t k = 100;
  bool operator==(const Metric&) const = default;
};

/// Parses a name such as "ndcg@100" or "recall_n@20". Throws InputError if the metric does not exist or if
/// the cut-off is not a positive integer.
Metric parse_metric(std::string_view name);
/// Returns the name of `metric`, for example "ndcg@100".
std::string to_string(const Metric& metric);
/// Returns the names of all metrics: "ndcg@K, recall@K, ..".
std::string metric_names();

/// Returns whether `value` of the metric `name` is better than `other`: smaller for gini@k and popularity@k,
/// larger for all others.
bool is_better(std::string_view name, double value, double other);

/// Returns the metric of one user whose targets have `ranks` among `items` items. Ranks of `items` or more
/// (masked targets) never count, even if the cut-off exceeds the number of items. `metric` must not be one of
/// lists.
double metric_of_user(const Metric& metric, std::span<const std::int32_t> ranks, std::int64_t items);

/// Returns the fraction of items in at least one list, given the number of lists that contain each item (Ge,
/// Delgado-Battenfeld and Jannach, RecSys 2010).
double coverage(std::span<const std::int64_t> lists_of_item);
/// Returns the Gini coefficient of the numbers of lists that contain each of the I items: sum over i of
/// (2i - I - 1) c_i / (I sum c), c ascending and i from 1 (Fleder and Hosanagar, Management Science 2009). 0
/// means that all items are recommended equally often.
double gini(std::span<const std::int64_t> lists_of_item);

/// A function such as coverage().
using CatalogMetric = double (*)(std::span<const std::int64_t> lists_of_item);
/// Returns the function of a metric of the lists of all users together, null for other metrics.
CatalogMetric catalog_metric(const Metric& metric);

/// Sums over users, to be reduced over ranks and then divided once. Users without a target must not be added.
struct MetricSums {
  double sum = 0.0;
  double sum_of_squares = 0.0;
  std::int64_t users = 0;

  void add(double value) {
    sum += value;
    sum_of_squares += value * value;
    ++users;
  }
  /// Returns the mean, or 0 if there are no users.
  double mean() const;
  /// Returns the population standard deviation divided by the root of the number of users, or 0 if there are
  /// no users.
  double standard_error() const;
};

// Rankings of one user's scores on the host, in the order of ranks_ahead(). Scores must not be nan; items
// with the score -infinity are masked.

/// Returns the number of items ahead of each target, or the number of all items if the target is masked.
std::vector<std::int32_t> ranks_of(std::span<const std::int32_t> targets, std::span<const float> scores);

/// Returns the `k` best items that are not masked, best first; fewer if fewer are left.
std::vector<std::int32_t> top_k(std::span<const float> scores, std::int64_t k);

// The order of ranks, and the metrics of one user. A new metric is a struct below, with its name and its
// function, and an entry in UserMetrics; configuration, evaluation and all devices use that table.
// docs/DATA.md defines the metrics for users.

/// Returns whether `item` ranks ahead of `target`: higher score first, then lower item index. A NaN score on
/// either side counts against the target, so that NaN scores never improve a metric.
VAECF_HD inline bool ranks_ahead(float score, std::int64_t item, float target_score, std::int64_t target) {
  return !(score < target_score) && (score != target_score || item < target);
}

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
