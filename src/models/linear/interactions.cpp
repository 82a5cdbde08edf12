#include <vaecf/math/linear_models.hpp>

#include <algorithm>
#include <utility>

#include "models/linear/sparse_weights.hpp"
#include "models/linear/user_weights.hpp"

namespace vaecf::models {
namespace {

/// Returns the number of features up to the last one that an item has.
std::int64_t feature_count(const Interactions& train) {
  const std::vector<std::int32_t>& features = train.features.columns;
  return features.empty() ? 0 : std::int64_t{std::ranges::max(features)} + 1;
}

}  // namespace

Interactions make_interactions(Csr users, std::int64_t items) {
  Interactions train{std::move(users), {}};
  Csr& by_item = train.items;
  by_item.offsets.assign(static_cast<std::size_t>(items) + 1, 0);
  for (const std::int32_t item : train.users.columns) ++by_item.offsets[static_cast<std::size_t>(item) + 1];
  for (std::size_t i = 1; i < by_item.offsets.size(); ++i) by_item.offsets[i] += by_item.offsets[i - 1];
  by_item.columns.resize(train.users.columns.size());
  by_item.values.resize(train.users.values.size());
  std::vector<std::int64_t> next(by_item.offsets.begin(), by_item.offsets.end() - 1);
  const CsrView rows = train.users.view();
  for (std::int64_t user = 0; user < rows.rows(); ++user) {
    const SparseRow row = rows.sparse_row(user);
    for (std::size_t k = 0; k < row.columns.size(); ++k) {
      const auto to = static_cast<std::size_t>(next[static_cast<std::size_t>(row.columns[k])]++);
      by_item.columns[to] = static_cast<std::int32_t>(user);
      if (!row.values.empty()) by_item.values[to] = row.values[k];
    }
  }
  return train;
}

Interactions add_feature_rows(const Interactions& train) {
  const Interactions by_feature = make_interactions(train.features, feature_count(train));
  Csr rows = train.users;
  for (std::int64_t feature = 0; feature < by_feature.items.rows(); ++feature)
    rows.append(by_feature.items.view().row(feature));
  if (!rows.values.empty()) rows.values.resize(rows.columns.size(), 1.0F);
  return make_interactions(std::move(rows), train.items.rows());
}

UserWeights weigh_users(const Interactions& train, double power, double feature_weight) {
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
    double popularity = 0.0, sum = 0.0, squares = 0.0;
    for_elements(train.items.view().sparse_row(item), [&](std::int32_t user, double x) {
      const double weight = weights.of_users[static_cast<std::size_t>(user)];
      popularity += weight;
      sum += weight * x;
      squares += weight * x * x;
    });
    weights.popularity.push_back(popularity);
    weights.sums.push_back(sum);
    weights.of_items.push_back(squares);
  }
  if (feature_weight == 0.0) return weights;
  std::vector<std::int64_t> holders(static_cast<std::size_t>(feature_count(train)), 0);
  for (const std::int32_t feature : train.features.columns) ++holders[static_cast<std::size_t>(feature)];
  for (const std::int64_t items : holders) {
    const double weight = items > 0 ? weights.mean * feature_weight / static_cast<double>(items) : 0.0;
    weights.of_users.push_back(static_cast<float>(weight));
    weights.sum += weights.of_users.back();
  }
  const auto first_feature = static_cast<std::size_t>(users.rows());
  for (std::int64_t item = 0; item < train.features.rows(); ++item)
    for (const std::int32_t feature : train.features.view().row(item))
      for (std::vector<double>* of_items : {&weights.of_items, &weights.sums})
        (*of_items)[static_cast<std::size_t>(item)] +=
            weights.of_users[first_feature + static_cast<std::size_t>(feature)];
  return weights;
}

Interactions read_interactions(const Context& context, const io::DatasetFile& dataset) {
  constexpr std::int64_t block_rows = 1 << 14;
  Csr users;
  const std::int64_t rows = dataset.rows("train");
  for (std::int64_t begin = 0; begin < rows; begin += block_rows) {
    const Csr block = dataset.read_rows("train", {begin, std::min(rows, begin + block_rows)});
    const std::int64_t before = users.offsets.back() - block.offsets.front();
    for (std::size_t r = 1; r < block.offsets.size(); ++r) users.offsets.push_back(before + block.offsets[r]);
    users.columns.insert(users.columns.end(), block.columns.begin(), block.columns.end());
    users.values.insert(users.values.end(), block.values.begin(), block.values.end());
    context.communicator.activity().note_progress();
  }
  Interactions train = make_interactions(std::move(users), dataset.items());
  if (dataset.item_features() > 0) train.features = dataset.read_rows("items/features", {0, dataset.items()});
  return train;
}

TrainUserCounts count_train_users(const Context& context, const io::DatasetFile& dataset) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(dataset.items()) + 1, 0);
  const std::int64_t rows = dataset.rows("train");
  const std::int64_t rank = context.communicator.rank();
  const std::int64_t ranks = context.communicator.size();
  const Range share{rows * rank / ranks, rows * (rank + 1) / ranks};
  constexpr std::int64_t block_rows = 1 << 14;
  for (std::int64_t begin = share.begin; begin < share.end; begin += block_rows) {
    const Csr block = dataset.read_rows("train", {begin, std::min(share.end, begin + block_rows)});
    for (const std::int32_t item : block.columns) ++counts[static_cast<std::size_t>(item)];
    for (std::int64_t row = 0; row < block.rows(); ++row) counts.back() += block.view().row_size(row) > 0;
    context.communicator.activity().note_progress();
  }
  context.communicator.all_reduce(std::span<std::int64_t>(counts));
  const std::int64_t users = counts.back();
  counts.pop_back();
  return {std::move(counts), users};
}

}  // namespace vaecf::models
