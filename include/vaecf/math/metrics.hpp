#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Ranking metrics in fp64, computed from the ranks of held-out items (Liang et al. 2018, section 4.2). The
/// rank of an item is the number of unmasked items that rank ahead of it, so they need neither a
/// sort nor a top-k. Metrics of recommended lists are computed from the lists.
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

/// Returns whether `value` of the metric `name` is better than `other`: smaller for gini@k and
/// mean_popularity@k, larger for all others.
bool is_better(std::string_view name, double value, double other);

/// Returns whether the metric weighs targets by the inverse of their propensities.
bool is_unbiased(const Metric& metric);
/// Returns whether the metric is also computed for targets of the head and of the tail alone: recall and
/// NDCG.
bool is_of_groups(const Metric& metric);

/// Returns the metric of one user whose targets have `ranks` among `items` items. Ranks of `items` or more
/// (masked targets) never count, even if the cut-off exceeds the number of items. `gains`: those of the
/// targets by inverse_propensities(), for unbiased metrics; empty: all are equal. `metric` must not be one of
/// lists.
double metric_of_user(const Metric& metric, std::span<const std::int32_t> ranks, std::int64_t items,
                      std::span<const double> gains = {});
/// Returns 1 / p of each item with the propensity p = max(0.01, sqrt(n / max n)), n its number of train users
/// (Saito, RecSys 2020, and the evaluation of RDLAE, SIGIR 2023).
std::vector<double> inverse_propensities(std::span<const std::int64_t> users_of_items);

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

}  // namespace vaecf::math
