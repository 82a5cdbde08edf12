#include <vaecf/train/coverage.hpp>

#include <algorithm>
#include <limits>

namespace vaecf::train {

Coverage::Coverage(const std::vector<math::Metric>& metrics, std::int64_t items) : metrics_(metrics) {
  for (const math::Metric& metric : metrics_) {
    longest_ = std::max(longest_, static_cast<int>(std::min<std::int64_t>(metric.k, items)));
  }
  if (longest_ == 0) return;
  best_place_.assign(static_cast<std::size_t>(items), std::numeric_limits<std::int64_t>::max());
}

void Coverage::add(std::span<const std::int32_t> list) {
  for (std::size_t place = 0; place < list.size() && list[place] >= 0; ++place) {
    std::int64_t& best = best_place_[static_cast<std::size_t>(list[place])];
    best = std::min(best, static_cast<std::int64_t>(place));
  }
}

std::vector<double> Coverage::shares(comm::Communicator& communicator) {
  std::vector<double> shares;
  std::vector<std::int64_t> listed(best_place_.size());
  for (const math::Metric& metric : metrics_) {
    for (std::size_t i = 0; i < listed.size(); ++i) listed[i] = best_place_[i] < metric.k ? 1 : 0;
    communicator.all_reduce(std::span<std::int64_t>(listed));
    const auto count =
        std::count_if(listed.begin(), listed.end(), [](std::int64_t users) { return users > 0; });
    shares.push_back(static_cast<double>(count) / static_cast<double>(listed.size()));
  }
  return shares;
}

}  // namespace vaecf::train
