#include <vaecf/math/linear_models.hpp>
#include <vaecf/models/item/interactions.hpp>

#include <algorithm>
#include <utility>

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

}  // namespace vaecf::models
