#include "run/similar.hpp"

#include <vaecf/math/ranking.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace vaecf::run {

std::vector<SimilarItems> similar_items(const models::Scorer& model, std::span<const std::int32_t> items,
                                        int k) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr std::size_t at_once = 16;  // items that share a pass over the weights
  const auto all = static_cast<std::size_t>(model.items());
  std::vector<float> scores(std::min(at_once, items.size()) * all);
  std::vector<SimilarItems> lists;
  for (std::size_t begin = 0; begin < items.size(); begin += at_once) {
    const auto some = items.subspan(begin, std::min(at_once, items.size() - begin));
    model.similarities(some, std::span(scores).first(some.size() * all));
    for (std::size_t n = 0; n < some.size(); ++n) {
      const std::span<float> own = std::span(scores).subspan(n * all, all);
      // Weights of a damaged checkpoint may overflow; a sort requires comparable scores.
      std::ranges::replace_if(
          own, [](float value) { return std::isnan(value); }, -infinity);
      own[static_cast<std::size_t>(some[n])] = -infinity;
      SimilarItems list{math::top_k(own, k), {}};
      for (const std::int32_t other : list.items) list.scores.push_back(own[static_cast<std::size_t>(other)]);
      lists.push_back(std::move(list));
    }
  }
  return lists;
}

}  // namespace vaecf::run
