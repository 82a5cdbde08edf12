#include <vaecf/base/parallel_for.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "models/item/ease.hpp"

namespace vaecf::models {

Interactions make_interactions(Csr users, std::int64_t items) {
  Interactions train{std::move(users), {}};
  Csr& by_item = train.items;
  by_item.offsets.assign(static_cast<std::size_t>(items) + 1, 0);
  for (const std::int32_t item : train.users.columns) ++by_item.offsets[static_cast<std::size_t>(item) + 1];
  for (std::size_t i = 1; i < by_item.offsets.size(); ++i) by_item.offsets[i] += by_item.offsets[i - 1];
  by_item.columns.resize(train.users.columns.size());
  std::vector<std::int64_t> next(by_item.offsets.begin(), by_item.offsets.end() - 1);
  const CsrView rows = train.users.view();
  for (std::int64_t user = 0; user < rows.rows(); ++user)
    for (const std::int32_t item : rows.row(user))
      by_item.columns[static_cast<std::size_t>(next[static_cast<std::size_t>(item)]++)] =
          static_cast<std::int32_t>(user);
  return train;
}

UserWeights weigh_users(const Interactions& train, double power) {
  UserWeights weights;
  const CsrView users = train.users.view();
  std::int64_t with_items = 0;
  for (std::int64_t user = 0; user < users.rows(); ++user) {
    const auto items = static_cast<double>(users.row_size(user));
    weights.of_users.push_back(static_cast<float>(math::user_weight(items, power)));
    weights.sum += weights.of_users.back();
    if (users.row_size(user) > 0) ++with_items;
  }
  if (with_items > 0) weights.mean = weights.sum / static_cast<double>(with_items);
  for (std::int64_t item = 0; item < train.items.rows(); ++item) {
    double sum = 0.0;
    for (const std::int32_t user : train.items.view().row(item))
      sum += weights.of_users[static_cast<std::size_t>(user)];
    weights.of_items.push_back(sum);
  }
  return weights;
}

Interactions read_interactions(const run::Run& run) {
  constexpr std::int64_t block_rows = 1 << 14;
  Csr users;
  const std::int64_t rows = run.dataset.rows("train");
  for (std::int64_t begin = 0; begin < rows; begin += block_rows) {
    const Csr block = run.dataset.read_rows("train", {begin, std::min(rows, begin + block_rows)});
    const std::int64_t before = users.offsets.back() - block.offsets.front();
    for (std::size_t r = 1; r < block.offsets.size(); ++r) users.offsets.push_back(before + block.offsets[r]);
    users.columns.insert(users.columns.end(), block.columns.begin(), block.columns.end());
    run.communicator.activity().note_progress();
  }
  return make_interactions(std::move(users), run.dataset.items());
}

namespace {

/// Items with fewer users are not stored, because their users are quickly visited.
constexpr std::int64_t min_stored_users = 16;

std::vector<std::int32_t> order_by_popularity(const UserWeights& weights) {
  std::vector<std::int32_t> order(weights.of_items.size());
  std::iota(order.rbegin(), order.rend(), 0);
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::int32_t item) {
    return weights.of_items[static_cast<std::size_t>(item)];
  });
  return order;
}

/// Returns X with the items in the given order.
Interactions reorder(const Interactions& train, std::span<const std::int32_t> order, int threads) {
  std::vector<std::int32_t> position(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    position[static_cast<std::size_t>(order[i])] = static_cast<std::int32_t>(i);
  Csr users = train.users;
  parallel_for(threads, {0, users.rows()}, [&](std::int64_t user) {
    const auto begin = users.columns.begin() + users.offsets[static_cast<std::size_t>(user)];
    const auto end = users.columns.begin() + users.offsets[static_cast<std::size_t>(user) + 1];
    for (auto item = begin; item != end; ++item) *item = position[static_cast<std::size_t>(*item)];
    std::sort(begin, end);
  });
  return make_interactions(std::move(users), static_cast<std::int64_t>(order.size()));
}

}  // namespace

Gram::Gram(const Interactions& train, const UserWeights& weights, double max_table_bytes, int threads,
           Progress* progress)
    : weights_(weights),
      weighted_(std::ranges::any_of(weights.of_users, [](float w) { return w != 0.0F && w != 1.0F; })),
      order_(order_by_popularity(weights)) {
  Interactions x = reorder(train, order_, threads);
  columns_ = std::move(x.items);
  row_offsets_ = std::move(x.users.offsets);
  row_positions_.resize(static_cast<std::int64_t>(x.users.columns.size()));
  std::ranges::copy(x.users.columns, row_positions_.data());
  const auto max_stored = static_cast<std::int64_t>(std::sqrt(max_table_bytes / 2.0));
  while (stored_ < std::min(items(), max_stored) && users_of(stored_) >= min_stored_users) ++stored_;
  table_.resize(stored_ * (stored_ - 1) / 2);
  const auto count_row = [&](std::int64_t i) {
    float* row = table_.data() + i * (i - 1) / 2;
    for (const std::int32_t user : columns_.view().row(i)) {
      for (const std::int32_t other : rows().row(user)) {
        if (other >= i) break;
        row[other] += weight(user);
      }
    }
  };
  if (progress != nullptr) progress->begin("counting the users of pairs of items", stored_, "items");
  parallel_for(threads, {0, stored_}, count_row, [&](std::int64_t done) {
    if (progress != nullptr) progress->update(done);
  });
  if (progress != nullptr) progress->end();
}

void Gram::read_row(std::int64_t i, Workspace& work) const {
  for (const std::int32_t other : work.nonzero) work.row[static_cast<std::size_t>(other)] = 0.0F;
  work.nonzero.clear();
  for (const std::int32_t user : columns_.view().row(i)) {
    for (const std::int32_t other : rows().row(user)) {
      float& element = work.row[static_cast<std::size_t>(other)];
      if (element == 0.0F) work.nonzero.push_back(other);
      element += weight(user);
    }
  }
}

void Gram::add_block(std::span<const std::int32_t> positions, device::SpdRegression& block,
                     Workspace& work) const {
  const auto size = static_cast<std::int64_t>(positions.size());
  const std::int64_t stored = std::ranges::lower_bound(positions, stored_) - positions.begin();
  for (std::int64_t b = 1; b < stored; ++b) {
    const float* row = table_row(positions[static_cast<std::size_t>(b)]);
    for (std::int64_t a = 0; a < b; ++a) block.at(a, b) += row[positions[static_cast<std::size_t>(a)]];
  }
  // The other pairs have an item that is not stored, and all their users are among its users.
  // The bits stay in the cache, which the slots of a large catalog exceed.
  const auto bit = [](std::int32_t position) { return std::uint64_t{1} << (position & 63); };
  for (std::int64_t a = 0; a < size; ++a) {
    const std::int32_t position = positions[static_cast<std::size_t>(a)];
    work.slots[static_cast<std::size_t>(position)] = static_cast<std::int32_t>(a);
    work.members[static_cast<std::size_t>(position / 64)] |= bit(position);
  }
  ++work.blocks;
  work.users.clear();
  for (const std::int32_t position : positions.subspan(static_cast<std::size_t>(stored)))
    for (const std::int32_t user : columns_.view().row(position))
      if (std::exchange(work.last_block[static_cast<std::size_t>(user)], work.blocks) != work.blocks)
        work.users.push_back(user);
  // Sums of different weights depend on their order; counts do not.
  if (weighted_) std::ranges::sort(work.users);
  // Each row is at a random place, so its offset and then its beginning are loaded early.
  const CsrView all = rows();
  constexpr std::size_t ahead = 8;
  const std::size_t count = work.users.size();
  for (std::size_t u = 0; u < count; ++u) {
    if (u + 2 * ahead < count)
      __builtin_prefetch(&all.offsets[static_cast<std::size_t>(work.users[u + 2 * ahead])]);
    if (u + ahead < count) __builtin_prefetch(all.row(work.users[u + ahead]).data());
    work.hits.clear();
    for (const std::int32_t item : all.row(work.users[u]))
      if ((work.members[static_cast<std::size_t>(item / 64)] & bit(item)) != 0)
        work.hits.push_back(work.slots[static_cast<std::size_t>(item)]);
    const float own = weight(work.users[u]);
    for (std::size_t y = work.hits.size() - 1; y > 0 && work.hits[y] >= stored; --y)
      for (std::size_t x = 0; x < y; ++x) block.at(work.hits[x], work.hits[y]) += own;
  }
  for (const std::int32_t position : positions) work.members[static_cast<std::size_t>(position / 64)] = 0;
}

}  // namespace vaecf::models
