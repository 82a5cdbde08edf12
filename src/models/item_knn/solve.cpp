#include "models/item_knn/solve.hpp"

#include <vaecf/base/parallel_for.hpp>
#include <vaecf/math/linear_models.hpp>
#include <vaecf/math/ranking.hpp>

#include <algorithm>
#include <atomic>
#include <utility>

#include "models/linear/user_weights.hpp"

namespace vaecf::models {

std::shared_ptr<SparseWeights> solve_item_knn(const Interactions& train, const ItemKnnOptions& options,
                                              const Context& context, int threads) {
  const std::int64_t items = train.items.rows();
  const CsrView users = train.items.view();
  const UserWeights weights = weigh_users(train, options.user_power);
  const bool per_source = options.per == NeighborsPer::source;
  const math::ItemSimilarity similarity{options.source_power, options.resolved_target_power(), options.shrink,
                                        options.power};
  const auto most = static_cast<std::size_t>(options.neighbors > 0 ? options.neighbors : items);
  std::vector<double> of_source, of_target;
  for (std::int64_t i = 0; i < items; ++i) {
    double squares = users.values.empty() ? static_cast<double>(users.row_size(i)) : 0.0;
    for (const double x : users.row_values(i)) squares += x * x;
    of_source.push_back(similarity.of_source(squares));
    of_target.push_back(similarity.of_target(squares));
  }
  const auto find_neighbors = [&](int /*thread*/, std::int64_t i, NeighborList& to) {
    // Only the items that share a user with item i are visited, so that large catalogs take no longer.
    thread_local std::vector<float> row;
    row.resize(static_cast<std::size_t>(items), 0.0F);
    std::vector<std::int32_t> others;
    for_elements(users.sparse_row(i), [&](std::int32_t user, float own_value) {
      const float weight = weights.of_users[static_cast<std::size_t>(user)] * own_value;
      for_elements(train.users.view().sparse_row(user), [&](std::int32_t other, float value) {
        const float product = weight * value;
        if (product == 0.0F) return;  // below the range of fp32
        float& together = row[static_cast<std::size_t>(other)];
        if (together == 0.0F) others.push_back(other);
        together += product;
      });
    });
    const auto own_item = static_cast<std::size_t>(i);
    std::vector<std::pair<std::int32_t, float>> all;
    for (const std::int32_t j : others) {
      const float together = std::exchange(row[static_cast<std::size_t>(j)], 0.0F);
      if (j == i) continue;
      const auto other_item = static_cast<std::size_t>(j);
      const double base = per_source ? similarity.base(together, of_source[own_item], of_target[other_item])
                                     : similarity.base(together, of_source[other_item], of_target[own_item]);
      all.emplace_back(j, static_cast<float>(base));
    }
    const std::size_t count = std::min(most, all.size());
    if (count < all.size())
      std::ranges::nth_element(all, all.begin() + static_cast<std::ptrdiff_t>(count),
                               [](const auto& a, const auto& b) {
                                 return math::ranks_ahead(a.second, a.first, b.second, b.first);
                               });
    to.neighbors.reserve(count);
    to.weights.reserve(count);
    for (std::size_t k = 0; k < count; ++k) {
      to.neighbors.push_back(all[k].first);
      to.weights.push_back(static_cast<float>(similarity.raise(all[k].second)));
    }
  };
  return solve_lists("item-kNN", ascending_order(items),
                     per_source ? ListDirection::targets_of_source : ListDirection::sources_of_target, 4096,
                     context, threads, find_neighbors);
}

std::int64_t item_knn_entries(const Interactions& train, std::int64_t neighbors, int threads) {
  const std::int64_t items = train.items.rows();
  std::atomic<std::int64_t> total = 0;
  std::vector<std::vector<std::int64_t>> last_of(static_cast<std::size_t>(threads));
  const auto count_of = [&](int thread, std::int64_t i) {
    std::vector<std::int64_t>& last = last_of[static_cast<std::size_t>(thread)];  // item that visited an item
    last.resize(static_cast<std::size_t>(items), -1);
    last[static_cast<std::size_t>(i)] = i;
    std::int64_t count = 0;
    for (const std::int32_t user : train.items.view().row(i))
      for (const std::int32_t other : train.users.view().row(user))
        if (std::exchange(last[static_cast<std::size_t>(other)], i) != i) ++count;
    total += neighbors > 0 ? std::min(neighbors, count) : count;
  };
  parallel_for(threads, {0, items}, count_of);
  return total;
}

}  // namespace vaecf::models
