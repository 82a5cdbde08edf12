#include "train/evaluate/popularity.hpp"

#include <algorithm>
#include <numeric>

namespace vaecf::train {
namespace {

constexpr std::int64_t block_rows = 1 << 14;

std::vector<std::int64_t> count_items(const io::DatasetFile& dataset, const RunContext& context) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(dataset.items()), 0);
  const std::int64_t rows = dataset.rows("train");
  const std::int64_t rank = context.communicator.rank();
  const std::int64_t ranks = context.communicator.size();
  const Range share{rows * rank / ranks, rows * (rank + 1) / ranks};
  for (std::int64_t begin = share.begin; begin < share.end; begin += block_rows) {
    const Csr block = dataset.read_rows("train", {begin, std::min(share.end, begin + block_rows)});
    for (const std::int32_t item : block.columns) ++counts[static_cast<std::size_t>(item)];
    context.communicator.activity().note_progress();
  }
  context.communicator.all_reduce(std::span<std::int64_t>(counts));
  return counts;
}

}  // namespace

Popularity::Popularity(const io::DatasetFile& dataset, const RunContext& context)
    : Popularity(count_items(dataset, context)) {}

Popularity::Popularity(std::span<const std::int64_t> counts)
    : order_(counts.size()), position_(counts.size()) {
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(),
                   [&](std::int32_t a, std::int32_t b) { return counts[a] > counts[b]; });
  for (std::size_t p = 0; p < order_.size(); ++p) position_[order_[p]] = static_cast<std::int32_t>(p);
}

std::size_t Popularity::top(std::span<const std::int32_t> seen, std::span<std::int32_t> items) const {
  std::size_t found = 0;
  for (std::size_t p = 0; p < order_.size() && found < items.size(); ++p) {
    if (!std::binary_search(seen.begin(), seen.end(), order_[p])) items[found++] = order_[p];
  }
  return found;
}

void Popularity::rank(std::span<const std::int32_t> seen, std::span<const std::int32_t> targets,
                      std::span<std::int32_t> ranks) const {
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const std::int32_t position = position_[targets[t]];
    const auto before = std::count_if(seen.begin(), seen.end(),
                                      [&](std::int32_t item) { return position_[item] < position; });
    const bool masked = std::binary_search(seen.begin(), seen.end(), targets[t]);
    ranks[t] =
        masked ? static_cast<std::int32_t>(position_.size()) : position - static_cast<std::int32_t>(before);
  }
}

}  // namespace vaecf::train
