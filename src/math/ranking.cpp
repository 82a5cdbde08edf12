#include <vaecf/math/ranking.hpp>

#include <algorithm>
#include <limits>
#include <numeric>

namespace vaecf::math {
namespace {

constexpr float masked_score = -std::numeric_limits<float>::infinity();

/// Returns whether item `a` is ranked ahead of item `b`.
bool is_ahead(std::span<const float> scores, std::int64_t a, std::int64_t b) {
  return ranks_ahead(scores[static_cast<std::size_t>(a)], a, scores[static_cast<std::size_t>(b)], b);
}

constexpr std::size_t skipped = 32;  // scores that are compared at once

/// Returns whether one of `skipped` scores is above `least`.
bool any_above(const float* scores, float least) {
  int found = 0;
  for (std::size_t j = 0; j < skipped; ++j) found |= static_cast<int>(scores[j] > least);
  return found != 0;
}

}  // namespace

std::vector<std::int32_t> ranks_of(std::span<const std::int32_t> targets, std::span<const float> scores) {
  // The positions of the targets, best first; each item is ahead of all targets from some position on.
  std::vector<std::size_t> order(targets.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order,
                    [&](std::size_t a, std::size_t b) { return is_ahead(scores, targets[a], targets[b]); });
  std::vector<std::int32_t> first_behind(targets.size() + 1, 0);
  for (std::size_t j = 0; j < scores.size(); ++j) {
    const auto found = std::ranges::partition_point(order, [&](std::size_t position) {
      return !is_ahead(scores, static_cast<std::int64_t>(j), targets[position]);
    });
    ++first_behind[static_cast<std::size_t>(found - order.begin())];
  }
  std::vector<std::int32_t> ranks(targets.size());
  std::int32_t ahead = 0;
  for (std::size_t k = 0; k < order.size(); ++k) {
    ahead += first_behind[k];
    const bool masked = scores[static_cast<std::size_t>(targets[order[k]])] == masked_score;
    ranks[order[k]] = masked ? static_cast<std::int32_t>(scores.size()) : ahead;
  }
  return ranks;
}

std::vector<std::int32_t> top_k(std::span<const float> scores, std::int64_t k) {
  const auto ahead = [&](std::int32_t a, std::int32_t b) { return is_ahead(scores, a, b); };
  // A heap whose first element is the last of the best so far. Items ascend, so an equal score is not ahead
  // of it.
  std::vector<std::int32_t> best;
  std::size_t j = 0;
  for (; j < scores.size() && std::ssize(best) < k; ++j) {
    if (scores[j] == masked_score) continue;
    best.push_back(static_cast<std::int32_t>(j));
    std::ranges::push_heap(best, ahead);
  }
  while (j < scores.size() && !best.empty()) {
    const float least = scores[static_cast<std::size_t>(best.front())];
    if (j + skipped <= scores.size() && !any_above(&scores[j], least)) {
      j += skipped;
      continue;
    }
    for (const std::size_t end = std::min(j + skipped, scores.size()); j < end; ++j) {
      if (!(scores[j] > scores[static_cast<std::size_t>(best.front())])) continue;
      std::ranges::pop_heap(best, ahead);
      best.back() = static_cast<std::int32_t>(j);
      std::ranges::push_heap(best, ahead);
    }
  }
  std::ranges::sort_heap(best, ahead);
  return best;
}

}  // namespace vaecf::math
