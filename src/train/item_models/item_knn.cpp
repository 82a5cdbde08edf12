#include "train/item_models/item_knn.hpp"

#include <vaecf/base/format.hpp>
#include <vaecf/math/user_metrics.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

#include "train/item_models/parallel_for.hpp"

namespace vaecf::train {

ItemKnn::ItemKnn(const Interactions& train, const model::ItemKnnOptions& options, const RunContext& context,
                 int threads) {
  comm::Communicator& ranks = context.communicator;
  const std::int64_t items = train.items.rows();
  const CsrView users = train.items.view();
  const bool per_source = options.per == model::NeighborsPer::source;
  const double power = options.source_power;
  std::vector<std::int32_t> order(static_cast<std::size_t>(items));
  std::iota(order.begin(), order.end(), 0);
  NeighborLists own(items, std::min(options.neighbors, items), ranks.rank(), ranks.size());
  const auto find_neighbors = [&](std::int64_t list) {
    const std::int64_t i = list * ranks.size() + ranks.rank();
    // Only the items that share a user with item i are visited, so that large catalogs take no longer.
    thread_local std::vector<float> row;
    row.resize(static_cast<std::size_t>(items), 0.0F);
    std::vector<std::int32_t> others;
    for (const std::int32_t user : users.row(i))
      for (const std::int32_t other : train.users.view().row(user))
        if (row[static_cast<std::size_t>(other)]++ == 0.0F) others.push_back(other);
    const auto own_users = static_cast<double>(users.row_size(i));
    std::vector<std::pair<std::int32_t, float>> all;
    for (const std::int32_t j : others) {
      const float together = std::exchange(row[static_cast<std::size_t>(j)], 0.0F);
      if (j == i) continue;
      const auto other_users = static_cast<double>(users.row_size(j));
      const double scale = per_source ? std::pow(own_users, power) * std::pow(other_users, 1.0 - power)
                                      : std::pow(other_users, power) * std::pow(own_users, 1.0 - power);
      all.emplace_back(j, static_cast<float>(together / (scale + options.shrink + 1e-6)));
    }
    const auto count = std::min(static_cast<std::size_t>(own.size), all.size());
    std::ranges::partial_sort(
        all, all.begin() + static_cast<std::ptrdiff_t>(count),
        [](const auto& a, const auto& b) { return math::ranks_ahead(a.second, a.first, b.second, b.first); });
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t slot = static_cast<std::size_t>(list * own.size) + k;
      std::tie(own.neighbors[slot], own.weights[slot]) = all[k];
    }
  };
  context.progress.begin(format("item-kNN, {} items", items), own.lists, "items");
  parallel_for(threads, {0, own.lists}, find_neighbors, [&](std::int64_t done) {
    ranks.activity().note_progress();
    context.progress.update(done);
  });
  context.progress.end();
  weights_ = gather_weights(std::move(own), order,
                            per_source ? ListDirection::targets_of_source : ListDirection::sources_of_target,
                            ranks, threads);
}

}  // namespace vaecf::train
