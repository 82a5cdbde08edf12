#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "device/contract/contract.hpp"
#include "support/thread_ranks.hpp"

/// The contract of operations whose items are shared by a model-parallel group: each item slice has
/// a device and a thread of its own, and the reference is that of all items.
namespace vaecf::testing {

inline constexpr int item_slice_counts[] = {1, 2, 3, 5};

/// Returns the rows, columns or elements of `all` that belong to an item slice or to some users.
Matrix rows_of(const Matrix& all, const ItemSlice& items);
Matrix columns_of(const Matrix& all, const ItemSlice& items);
Matrix rows_of(const Matrix& all, Range users);

/// Returns a batch of users with and without items. If there are several users, some have no item in some of
/// the item slices, and some have all their items in one of them.
HostBatch sliced_batch(std::int64_t users, std::int64_t items, int item_slices, std::uint64_t seed = 1);

/// The device of one item slice, with the helpers of the contract.
class ItemSliceDevice : public LayerContract {
 public:
  using LayerContract::activations, LayerContract::backward, LayerContract::begin,
      LayerContract::bias_gradient, LayerContract::device, LayerContract::expect_near,
      LayerContract::expect_same, LayerContract::expect_zero_padding, LayerContract::export_tensor,
      LayerContract::flat, LayerContract::import_tensor, LayerContract::losses, LayerContract::low_precision,
      LayerContract::fp16, LayerContract::make_input_table, LayerContract::make_layer,
      LayerContract::make_moments, LayerContract::read, LayerContract::Reports, LayerContract::step,
      LayerContract::tolerance, LayerContract::update, LayerContract::weight_gradient, LayerContract::write;
  void TestBody() override {}
  void join(ThreadRanks& model_parallel);

  ThreadRanks& model_parallel() { return *model_parallel_; }
  int index() const { return model_parallel_->index(); }
  ItemSlice item_slice(std::int64_t items) const { return model_parallel_->item_slice(items); }
  Range own(std::int64_t users) const { return model_parallel_->own_users(users); }
  /// Makes activations for this rank's part of `users` users.
  device::Matrix make_part(std::int64_t users, std::int64_t columns);
  /// Makes activations with this rank's rows of `all`.
  device::Matrix part_of(const Matrix& all);
  /// Makes this item slice of an input or output layer of all items.
  TestLayer make_item_slice(device::TensorKind kind, const Matrix& weight, const Matrix& bias);
  /// Gathers this item slice of the batch.
  std::unique_ptr<device::Batch> gather(const HostBatch& batch, bool with_transpose = true);

 private:
  ThreadRanks* model_parallel_ = nullptr;
};

class Sliced : public ::testing::TestWithParam<ContractDevice> {
 protected:
  void SetUp() override;
  /// Runs `body` on one thread and device per item slice. All threads must exchange equally often.
  void run(int item_slices, const std::function<void(ItemSliceDevice&)>& body);
};

/// Sums of losses of all item slices, for run().
struct LossOfSlices {
  explicit LossOfSlices(std::size_t cases) : sums(cases) {}
  void add(std::size_t index, const device::LossSums& of_item_slice);
  std::vector<device::LossSums> sums;
};

}  // namespace vaecf::testing
