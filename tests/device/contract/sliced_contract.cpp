#include "device/contract/sliced_contract.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>

namespace vaecf::testing {

using device::TensorKind;

Matrix rows_of(const Matrix& all, const ItemSlice& items) {
  Matrix part(items.count(), all.columns);
  for (std::int64_t j = 0; j < part.rows; ++j) {
    for (std::int64_t k = 0; k < all.columns; ++k) part.at(j, k) = all.at(items.global(j), k);
  }
  return part;
}

Matrix columns_of(const Matrix& all, const ItemSlice& items) {
  Matrix part(all.rows, items.count());
  for (std::int64_t r = 0; r < all.rows; ++r) {
    for (std::int64_t j = 0; j < part.columns; ++j) part.at(r, j) = all.at(r, items.global(j));
  }
  return part;
}

Matrix rows_of(const Matrix& all, Range users) {
  Matrix part(users.size(), all.columns);
  std::copy_n(all.values.begin() + users.begin * all.columns, part.values.size(), part.values.begin());
  return part;
}

HostBatch sliced_batch(std::int64_t users, std::int64_t items, int item_slices, std::uint64_t seed) {
  const Csr rows = random_rows(users, items, seed);
  HostBatch batch;
  batch.items = items;
  for (std::int64_t u = 0; u < users; ++u) {
    for (const std::int32_t item : rows.view().row(u)) {
      if (u % 5 != 2 || item % item_slices == u % item_slices) batch.rows.columns.push_back(item);
    }
    batch.rows.offsets.push_back(static_cast<std::int64_t>(batch.rows.columns.size()));
    batch.users.push_back(static_cast<std::uint32_t>(1000 + u));
  }
  return batch;
}

void ItemSliceDevice::join(ThreadRanks& model_parallel) {
  model_parallel_ = &model_parallel;
  model_parallel.synchronize = [this] { device().synchronize(); };
}

device::Matrix ItemSliceDevice::make_part(std::int64_t users, std::int64_t columns) {
  return device().make_matrix(model_parallel_->part_rows(users), columns);
}

device::Matrix ItemSliceDevice::part_of(const Matrix& all) {
  auto made = make_part(all.rows, all.columns);
  write(made, rows_of(all, own(all.rows)));
  return made;
}

TestLayer ItemSliceDevice::make_item_slice(TensorKind kind, const Matrix& weight, const Matrix& bias) {
  if (kind == TensorKind::input_table)
    return make_layer(kind, rows_of(weight, item_slice(weight.rows)), bias);
  const ItemSlice items = item_slice(weight.columns);
  return make_layer(kind, columns_of(weight, items), columns_of(bias, items));
}

std::unique_ptr<device::Batch> ItemSliceDevice::gather(const HostBatch& batch, bool with_transpose) {
  const ItemSlice items = item_slice(batch.items);
  Csr local;
  std::vector<std::int32_t> sizes;
  std::vector<std::int64_t> order;
  for (std::int64_t u = 0; u < batch.size(); ++u) {
    for (const std::int32_t item : batch.rows.view().row(u)) {
      if (items.holds(item)) local.columns.push_back(static_cast<std::int32_t>(items.local(item)));
    }
    local.offsets.push_back(static_cast<std::int64_t>(local.columns.size()));
    sizes.push_back(static_cast<std::int32_t>(batch.rows.view().row_size(u)));
    order.push_back(u);
  }
  const std::int64_t first_user = batch.users.empty() ? 0 : batch.users[0];
  const auto rows = device().make_user_rows({local.view(), sizes}, first_user, batch.items, model_parallel());
  auto made = device().make_batch();
  device().gather_batch(*rows, order, with_transpose, *made);
  device().synchronize();
  EXPECT_EQ(made->users(), batch.size());
  EXPECT_EQ(made->own(), own(batch.size()));
  return made;
}

void Sliced::SetUp() {
  const ContractDevice& device = GetParam();
  if (!device.skip.empty()) {
    const char* required = std::getenv("VAECF_REQUIRE_GPU");
    if (required != nullptr && std::string(required) == "1") FAIL() << device.skip;
    GTEST_SKIP() << device.skip;
  }
  if (!device.host_memory) GTEST_SKIP() << "the item slices of this test exchange in host memory";
}

void Sliced::run(int item_slices, const std::function<void(ItemSliceDevice&)>& body) {
  std::vector<std::unique_ptr<ItemSliceDevice>> devices;
  for (int s = 0; s < item_slices; ++s) devices.push_back(std::make_unique<ItemSliceDevice>());
  std::vector<std::int64_t> exchanges(static_cast<std::size_t>(item_slices));
  run_thread_ranks(item_slices, [&](ThreadRanks& model_parallel) {
    ItemSliceDevice& mine = *devices[static_cast<std::size_t>(model_parallel.index())];
    mine.join(model_parallel);
    body(mine);
    mine.device().synchronize();
    exchanges[static_cast<std::size_t>(model_parallel.index())] = model_parallel.exchanges();
  });
  EXPECT_EQ(exchanges, std::vector(exchanges.size(), exchanges[0]));
  if (item_slices == 1) {
    EXPECT_EQ(exchanges[0], 0) << "one item slice needs no exchange";
  }
}

void LossOfSlices::add(std::size_t index, const device::LossSums& of_item_slice) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  device::LossSums& sum = sums[index];
  sum.nll += of_item_slice.nll;
  sum.kl += of_item_slice.kl;
  sum.weighted_kl += of_item_slice.weighted_kl;
  sum.users += of_item_slice.users;
}

}  // namespace vaecf::testing
