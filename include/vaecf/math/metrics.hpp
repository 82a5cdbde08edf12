#pragma once

#include <vaecf/base/host_device.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// Ranking metrics from ranks of held-out items, in fp64. No sort and no top-k: the rank of an item is the
/// number of unmasked items that beat it. Liang et al. 2018, section 4.2. The metrics themselves are in the
/// table of metric_rows.hpp, for host and device.
namespace vaecf::math {

/// A metric with its cut-off, e.g. ndcg@100.
struct Metric {
  /// The share of the catalogue in at least one user's list: no mean over users, and not from ranks.
  static constexpr int coverage = -1;

  int kind = 0;  ///< its number in the table, or coverage
  std::int32_t k = 100;
  bool operator==(const Metric&) const = default;
};

/// Reads "ndcg@100" or "recall_n@20". InputError for another name or a cut-off that is no positive number.
Metric parse_metric(std::string_view name);
std::string to_string(const Metric& metric);
/// "ndcg@K, recall@K ..."
std::string metric_names();

/// The metric of one user whose targets stand at `ranks` among `items` items; ranks of `items` or more
/// (masked targets) never count, not even where the cut-off is larger than the catalogue. 0 for coverage.
double metric_of_user(const Metric& metric, std::span<const std::int32_t> ranks, std::int64_t items);

/// Sums over users, to be added over ranks and divided once. Users without a target are not to be added.
struct MetricSums {
  double sum = 0.0;
  double sum_of_squares = 0.0;
  std::int64_t users = 0;

  VAECF_HD void add(double value) {
    sum += value;
    sum_of_squares += value * value;
    ++users;
  }
  VAECF_HD void add(const MetricSums& other) {
    sum += other.sum;
    sum_of_squares += other.sum_of_squares;
    users += other.users;
  }
  /// 0 without users.
  double mean() const;
  /// Population standard deviation over the root of the number of users; 0 without users.
  double standard_error() const;
};

}  // namespace vaecf::math
