#pragma once

#include <vaecf/base/host_device.hpp>
#include <vaecf/math/lanes.hpp>
#include <vaecf/math/metrics.hpp>

#include <cmath>
#include <cstdint>

/// The order of ranks, and the metrics of one user, written once over Lanes; metrics.hpp says what they are.
namespace vaecf::math {

/// Whether `item` stands before `target`: higher score first, then lower item. A NaN on either side counts
/// against the target, so that a broken model never looks like a good one.
VAECF_HD inline bool beats(float score, std::int64_t item, float target_score, std::int64_t target) {
  return !(score < target_score) && (score != target_score || item < target);
}

/// What a target at `rank` (from 0) adds to DCG. The base of the logarithm cancels in NDCG.
VAECF_HD inline double discounted_gain(std::int64_t rank) {
  return 1.0 / std::log2(static_cast<double>(rank + 2));
}

/// `metric` of a user whose `count` targets stand at `ranks` among `items` items, in fp64. Ranks of `items`
/// or more (masked targets) never count. 0 where there is no target.
template <Lanes L>
VAECF_HD double metric_row(L& lanes, const Metric& metric, const std::int32_t* ranks, std::int64_t count,
                           std::int64_t items) {
  const std::int64_t k = metric.k < items ? metric.k : items;
  const std::int64_t possible = k < count ? k : count;
  if (possible == 0 || metric.kind == MetricKind::coverage) return 0.0;
  if (metric.kind == MetricKind::ndcg) {
    const double dcg =
        lanes.sum(count, [=](std::int64_t i) { return ranks[i] < k ? discounted_gain(ranks[i]) : 0.0; });
    return dcg / lanes.sum(possible, [](std::int64_t rank) { return discounted_gain(rank); });
  }
  if (metric.kind == MetricKind::map) {
    // At most k targets are in the list: k * count steps at most.
    const double precisions = lanes.sum(count, [=](std::int64_t i) {
      if (ranks[i] >= k) return 0.0;
      std::int64_t up_to_here = 0;
      for (std::int64_t j = 0; j < count; ++j) up_to_here += ranks[j] <= ranks[i] ? 1 : 0;
      return static_cast<double>(up_to_here) / static_cast<double>(ranks[i] + std::int64_t{1});
    });
    return precisions / static_cast<double>(possible);
  }
  if (metric.kind == MetricKind::mrr) {
    // The first in the list is the one that no other target stands before.
    return lanes.sum(count, [=](std::int64_t i) {
      if (ranks[i] >= k) return 0.0;
      for (std::int64_t j = 0; j < count; ++j) {
        if (ranks[j] < ranks[i]) return 0.0;
      }
      return 1.0 / static_cast<double>(ranks[i] + std::int64_t{1});
    });
  }
  const std::int64_t hits = lanes.sum(count, [=](std::int64_t i) { return std::int64_t{ranks[i] < k}; });
  if (metric.kind == MetricKind::hit) return hits > 0 ? 1.0 : 0.0;
  return static_cast<double>(hits) /
         static_cast<double>(metric.kind == MetricKind::recall ? possible : count);
}

}  // namespace vaecf::math
