#include "run/reasons.hpp"

#include <vaecf/base/text.hpp>
#include <vaecf/math/ranking.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

namespace vaecf::run {

void require_sum(std::span<const float> contributions, std::int32_t item, float score, double scale) {
  double sum = 0.0, absolute = 0.0;
  for (const float value : contributions) {
    sum += value;
    absolute += std::abs(value);
  }
  if (std::abs(sum - score) <= 1e-5 * std::max(absolute, scale)) return;
  throw std::logic_error(format(
      "the contributions of a user's items to the score of item {} (from 0) add up to {:g}, but the score is {:g}",
      item, sum, score));
}

void select_reasons(std::span<const std::int32_t> history, std::span<const float> contributions,
                    std::span<std::int32_t> because, std::span<float> largest) {
  std::vector<std::pair<float, std::int32_t>> found;
  for (std::size_t i = 0; i < history.size(); ++i)
    if (!std::isnan(contributions[i])) found.emplace_back(contributions[i], history[i]);
  const std::size_t count = std::min(found.size(), because.size());
  const auto end = found.begin() + static_cast<std::ptrdiff_t>(count);
  std::ranges::partial_sort(found, end, [](const auto& a, const auto& b) {
    return math::ranks_ahead(a.first, a.second, b.first, b.second);
  });
  std::ranges::fill(because, -1);
  std::ranges::fill(largest, std::numeric_limits<float>::quiet_NaN());
  for (std::size_t i = 0; i < count; ++i) std::tie(largest[i], because[i]) = found[i];
}

}  // namespace vaecf::run
