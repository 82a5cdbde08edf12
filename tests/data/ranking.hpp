#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace vaecf::data {

/// NDCG@100 of one user: items by score, ties to the lower one, against the ascending items `wanted`.
inline double ndcg100_of(const std::vector<double>& score, std::span<const std::int32_t> wanted) {
  std::vector<std::int32_t> order(score.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return score[static_cast<std::size_t>(a)] > score[static_cast<std::size_t>(b)];
  });
  double gain = 0;
  double best = 0;
  for (std::size_t rank = 0; rank < 100; ++rank) {
    const double discount = 1 / std::log2(static_cast<double>(rank) + 2);
    if (rank < wanted.size()) best += discount;
    if (std::binary_search(wanted.begin(), wanted.end(), order[rank])) gain += discount;
  }
  return gain / best;
}

}  // namespace vaecf::data
