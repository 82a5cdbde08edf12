#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/contract/contract.hpp"

/// The contract of operations whose items a model-parallel group may share: each item slice has a device and
/// a thread of its own, and the reference is that of all items.
namespace vaecf::testing {

/// Numbers of users of a batch, of items, and of columns of a table.
struct TableShape {
  std::int64_t users;
  std::int64_t items;
  std::int64_t width;
  bool one_item_slice = false;  ///< is tested with one item slice only
  bool weighted = false;        ///< the rows have values
};
/// Fewer users than item slices, fewer items than item slices, sizes around those of warps, tiles and blocks
/// of users, and more items than one report has.
inline constexpr TableShape table_shapes[] = {{0, 33, 7},
                                              {1, 1, 7},
                                              {1, 31, 7},
                                              {2, 1, 3},
                                              {2, 257, 33},
                                              {7, 31, 7},
                                              {7, 257, 9},
                                              {33, 1, 33},
                                              {33, 33, 7},
                                              {33, 257, 33},
                                              {513, 257, 9},
                                              {1100, 31, 5},
                                              {257, 1, 1, true},
                                              {31, 33, 7, true},
                                              {32, 257, 64, true},
                                              {33, 4500, 8, true},
                                              {257, 1000, 33, true},
                                              {7, 257, 9, false, true},
                                              {33, 257, 33, false, true},
                                              {513, 257, 9, true, true},
                                              {33, 4500, 8, true, true}};

/// Returns the rows, columns or elements of `all` that belong to an item slice or to some users.
Matrix rows_of(const Matrix& all, const ItemSlice& items);
Matrix columns_of(const Matrix& all, const ItemSlice& items);
Matrix rows_of(const Matrix& all, Range users);

/// Returns a batch of users with and without items, in the reverse order of their indices. If there are
/// several users, some have no item in some of the item slices, and some have all their items in one of them.
HostBatch sliced_batch(std::int64_t users, std::int64_t items, int item_slices, std::uint64_t seed = 1,
                       bool weighted = false);

/// The device of one item slice.
class ItemSliceDevice : public TestDevice {
 public:
  using TestDevice::TestDevice;

  device::ModelParallelGroup& model_parallel() { return *model_parallel_; }
  int index() const { return model_parallel_->index(); }
  ItemSlice item_slice(std::int64_t items) const { return model_parallel_->item_slice(items); }
  Range own(std::int64_t users) const { return model_parallel_->own_users(users); }
  /// Makes activations for this rank's part of `users` users.
  device::Matrix make_part(std::int64_t users, std::int64_t columns);
  /// Makes activations with this rank's rows of `all`.
  device::Matrix part_of(const Matrix& all);
  /// Makes this item slice of an input or output layer of all items.
  TestLayer make_item_slice(device::TensorKind kind, const Matrix& weight, const Matrix& bias,
                            const Matrix& features = {});
  /// Gathers this item slice of a sliced_batch().
  std::unique_ptr<device::Batch> gather(const HostBatch& batch, bool with_transpose = true);
  /// Gathers the features of own users.
  std::unique_ptr<device::Batch> gather_features(const HostBatch& features);

 private:
  friend class Sliced;
  device::ModelParallelGroup* model_parallel_ = nullptr;
};

/// An output layer with its input and a batch.
struct OutputCase {
  HostBatch batch;
  Matrix weight;
  Matrix bias;
  Matrix hidden;
  device::Loss loss = device::Loss::multinomial;
};
OutputCase random_output(const TableShape& shape, int item_slices,
                         device::Loss loss = device::Loss::multinomial);

class Sliced : public Contract {
 protected:
  /// Returns the numbers of item slices to test on this device.
  std::vector<int> item_slice_counts() const;
  /// Runs `body` on one thread and device per item slice. One item slice must not exchange anything.
  void run(int item_slices, const std::function<void(ItemSliceDevice&)>& body);
  /// Calls `body` for each number of item slices and each shape, with a trace of them.
  void for_each_shape(std::span<const TableShape> shapes,
                      const std::function<void(int item_slices, const TableShape& shape)>& body);

  struct OutputStep {
    std::size_t reports = 0;      ///< of the first item slice
    double loss_error = 0.0;      ///< relative error
    std::int64_t peak_bytes = 0;  ///< of device memory, before the fused update
  };
  /// Compares loss and gradients of all item slices, and a fused update, with fp64. Tolerances of several
  /// item slices are relative to the gradient of all items, since that of an item slice may be nothing but
  /// rounding errors.
  OutputStep expect_output_step(int item_slices, const OutputCase& all,
                                std::optional<Tolerance> of_d_hidden = std::nullopt);
};

/// Sums of losses of all item slices, for run().
struct LossOfSlices {
  explicit LossOfSlices(std::size_t cases) : sums(cases) {}
  void add(std::size_t index, const device::LossSums& of_item_slice);
  std::vector<device::LossSums> sums;
};

}  // namespace vaecf::testing
