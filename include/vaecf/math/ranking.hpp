#pragma once

#include <vaecf/base/host_device.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vaecf::math {

/// Returns whether `item` ranks ahead of `target`: higher score first, then lower item index. A NaN score on
/// either side counts against the target, so that NaN scores never improve a metric.
VAECF_HD inline bool ranks_ahead(float score, std::int64_t item, float target_score, std::int64_t target) {
  return !(score < target_score) && (score != target_score || item < target);
}

// Rankings of one user's scores on the host, in the order of ranks_ahead(); Device::top_k() makes the lists
// of networks in the same order. Scores must not be nan; items with the score -infinity are masked.

/// Returns the number of items ahead of each target, or the number of all items if the target is masked.
std::vector<std::int32_t> ranks_of(std::span<const std::int32_t> targets, std::span<const float> scores);

/// Returns the `k` best items that are not masked, best first; fewer if fewer are left.
std::vector<std::int32_t> top_k(std::span<const float> scores, std::int64_t k);

}  // namespace vaecf::math
