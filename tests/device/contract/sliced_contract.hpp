#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "device/contract/contract.hpp"
#include "support/thread_slices.hpp"

/// The contract of operations whose items are shared by a group of ranks: each slice has a device and a
/// thread of its own, and the reference is that of all items.
namespace vaecf::testing {

inline constexpr int slice_counts[] = {1, 2, 3, 5};

/// Returns the rows, columns or elements of `all` that belong to a slice or to some users.
Matrix rows_of(const Matrix& all, const ItemSlice& items);
Matrix columns_of(const Matrix& all, const ItemSlice& items);
Matrix rows_of(const Matrix& all, Range users);

/// Returns a batch of users with and without items. If there are several users, some have no item in some of
/// the slices, and some have all their items in one of them.
HostBatch sliced_batch(std::int64_t users, std::int64_t items, int slices, std::uint64_t seed = 1);

/// The device of one slice, with the helpers of the contract.
class SliceDevice : public LayerContract {
 public:
  using LayerContract::activations, LayerContract::backward, LayerContract::begin,
      LayerContract::bias_gradient, LayerContract::device, LayerContract::expect_near,
      LayerContract::expect_same, LayerContract::expect_zero_padding, LayerContract::export_tensor,
      LayerContract::flat, LayerContract::import_tensor, LayerContract::losses, LayerContract::low_precision,
      LayerContract::fp16, LayerContract::make_input_table, LayerContract::make_layer,
      LayerContract::make_moments, LayerContract::read, LayerContract::Reports, LayerContract::step,
      LayerContract::tolerance, LayerContract::update, LayerContract::weight_gradient, LayerContract::write;
  void TestBody() override {}
  void join(ThreadSlices& group);

  ThreadSlices& group() { return *group_; }
  int index() const { return group_->index(); }
  ItemSlice slice(std::int64_t items) const { return group_->slice(items); }
  Range own(std::int64_t users) const { return group_->own_users(users); }
  /// Makes activations for this rank's part of `users` users.
  device::Matrix make_part(std::int64_t users, std::int64_t columns);
  /// Makes activations with this rank's rows of `all`.
  device::Matrix part_of(const Matrix& all);
  /// Makes this slice of an input or output layer of all items.
  TestLayer make_slice(device::TensorKind kind, const Matrix& weight, const Matrix& bias);
  /// Gathers this slice of the batch.
  std::unique_ptr<device::Batch> gather(const HostBatch& batch, bool with_transpose = true);

 private:
  ThreadSlices* group_ = nullptr;
};

class Sliced : public ::testing::TestWithParam<ContractDevice> {
 protected:
  void SetUp() override;
  /// Runs `body` on one thread and device per slice. All threads must exchange equally often.
  void run(int slices, const std::function<void(SliceDevice&)>& body);
};

/// Sums of losses of all slices, for run().
struct LossOfSlices {
  explicit LossOfSlices(std::size_t cases) : sums(cases) {}
  void add(std::size_t index, const device::LossSums& of_slice);
  std::vector<device::LossSums> sums;
};

}  // namespace vaecf::testing
