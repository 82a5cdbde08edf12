#include <vaecf/evaluate/popularity.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace vaecf::evaluate {

Popularity::Popularity(const Context& context, const io::DatasetFile& dataset)
    : Popularity(models::count_train_users(context, dataset)) {}

Popularity::Popularity(models::TrainUserCounts counted)
    : Popularity(std::move(counted.of_item), counted.with_items) {}

Popularity::Popularity(std::vector<std::int64_t> counts, std::int64_t users)
    : counts_(std::move(counts)),
      users_(static_cast<double>(users)),
      order_(counts_.size()),
      position_(counts_.size()) {
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(),
                   [&](std::int32_t a, std::int32_t b) { return counts_[a] > counts_[b]; });
  for (std::size_t p = 0; p < order_.size(); ++p) position_[order_[p]] = static_cast<std::int32_t>(p);
  const std::int64_t all = std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
  for (std::int64_t sum = 0; 5 * sum < 4 * all; ++head_) sum += counts_[order_[head_]];
}

void Popularity::score(const SparseRow&, std::span<float> scores) const {
  std::ranges::transform(position_, scores.begin(),
                         [](std::int32_t position) { return -static_cast<float>(position); });
}

double Popularity::of_list(const math::Metric& metric, std::span<const std::int32_t> list) const {
  list = list.first(std::min(list.size(), static_cast<std::size_t>(metric.k)));
  double sum = 0.0;
  std::int64_t items = 0;
  for (const std::int32_t item : list) {
    if (item < 0) continue;
    ++items;
    const auto count = static_cast<double>(counts_[item]);
    if (metric.kind == math::Metric::popularity) sum += count;
    if (metric.kind == math::Metric::tail) sum += is_in_head(item) ? 0.0 : 1.0;
    if (metric.kind == math::Metric::novelty) sum += std::log2(users_ / std::max(count, 1.0));
  }
  return items == 0 ? 0.0 : sum / static_cast<double>(items);
}

}  // namespace vaecf::evaluate
