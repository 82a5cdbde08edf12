#pragma once

#include <vaecf/base/half_precision.hpp>
#include <vaecf/base/host_device.hpp>
#include <vaecf/device/cuda/platform.hpp>
#include <vaecf/device/cuda/row_views.hpp>
#include <vaecf/device/device.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vaecf::cuda {

/// Returns `n` rounded up to a multiple of `to`.
inline VAECF_HD std::int64_t round_up(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

/// Alignment of stored rows in elements: at least 16 bytes in every precision.
constexpr std::int64_t row_alignment = 8;
/// Alignment of logit rows and everything indexed by item: 79 tiles of 256 columns for ML-20M's 20,108 items.
constexpr std::int64_t item_alignment = 256;
/// Alignment of tensors in the flat buffers: 256 bytes.
constexpr std::int64_t tensor_alignment = 64;

/// Counts reallocations. A graph captured before the last one must not run again.
struct AllocationEpoch {
  std::uint64_t value = 0;
  bool capturing = false;
  /// Throws std::logic_error during a capture, when nothing may be reallocated.
  void require_not_capturing(const char* what) const;
};

/// Makes `array` at least `size` elements long; the contents are lost if it grows. Frees the old memory
/// first, to limit peak memory.
template <class T>
void grow(Gpu& gpu, AllocationEpoch& allocation_epoch, std::int64_t size, const char* what,
          DeviceArray<T>& array) {
  if (array.size() >= size) return;
  allocation_epoch.require_not_capturing(what);
  array = DeviceArray<T>();
  array = DeviceArray<T>(gpu, size, what);
  ++allocation_epoch.value;
}

using FloatBuffer = DeviceArray<float>;
using Bf16Buffer = DeviceArray<Bf16>;

/// The weights: fp32 masters and, in bf16 and fp16, a copy of all of them at the same offsets.
class Parameters {
 public:
  Parameters(Gpu& gpu, const device::ParameterLayout& layout, std::int64_t min_size, DType dtype)
      : layout_(layout),
        master_(gpu, std::max(layout.size, min_size), "the weights"),
        dtype_(dtype),
        copies_(gpu, dtype == DType::fp32 ? 0 : layout.size, "the 16-bit copy of the weights") {}
  const device::ParameterLayout& layout() const { return layout_; }
  FloatBuffer& master() { return master_; }
  const FloatBuffer& master() const { return master_; }

  const float* weights(int tensor) const { return master_.data() + layout_.tensors[tensor].range.begin; }
  /// Returns the weights as product operand, in the device's operand type.
  const void* operand(int tensor) const {
    if (dtype_ == DType::fp32) return weights(tensor);
    return copies_.data() + layout_.tensors[tensor].range.begin;
  }
  /// Returns (layout().size) bf16 or fp16 values as bits; null in fp32.
  std::uint16_t* copies() { return copies_.data(); }

 private:
  device::ParameterLayout layout_;
  FloatBuffer master_;
  DType dtype_;
  DeviceArray<std::uint16_t> copies_;
};

/// (rows, columns) row-major with `stride` elements between rows and zeros after the columns. In 16-bit
/// precisions there is a second copy as product operand; every writer must write both. There are two
/// exceptions: the copy of a gradient by a layer's output is undefined until the layer's backward pass has
/// converted the gradient to that before the activation, and so are the copies of s and of both sums of
/// RecVAE's layers.
class Activations {
 public:
  Activations(Gpu& gpu, std::int64_t max_rows, std::int64_t columns, DType dtype)
      : max_rows_(max_rows),
        columns_(columns),
        stride_(round_up(columns, row_alignment)),
        values_(gpu, max_rows * stride_, "activations"),
        copy_(gpu, dtype == DType::fp32 ? 0 : max_rows * stride_, "activations") {}
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  std::int64_t stride() const { return stride_; }
  std::int64_t max_rows() const { return max_rows_; }
  /// Throws std::logic_error if `rows` exceeds max_rows(). Rows behind them are undefined.
  void set_rows(std::int64_t rows);
  float* values() { return values_.data(); }
  const float* values() const { return values_.data(); }
  std::uint16_t* copy() { return copy_.data(); }  ///< null in fp32
  const void* operand() const {
    return copy_.size() == 0 ? static_cast<const void*>(values_.data()) : copy_.data();
  }

 private:
  std::int64_t max_rows_;
  std::int64_t columns_;
  std::int64_t stride_;
  std::int64_t rows_ = 0;
  DeviceArray<float> values_;
  DeviceArray<std::uint16_t> copy_;
};

/// Sparse rows of users. Item ids are in device memory, or in pinned host memory that kernels read over the
/// bus; offsets are always on the device.
class UserRows {
 public:
  /// Rows of the slice of `slices` of `items` items. Throws InputError if a column is not in the slice.
  UserRows(Gpu& gpu, Stream& stream, SlicedRows sliced, std::int64_t first_user, std::int64_t items,
           device::ItemSlices& slices, bool on_device, std::string description);
  std::int64_t rows() const { return static_cast<std::int64_t>(host_offsets.size()) - 1; }
  std::string description() const { return description_; }

  ItemIds ids() const { return {device_ids_.size() > 0 ? device_ids_.data() : host_ids_.data(), items_}; }
  const std::int64_t* offsets() const { return offsets_.data(); }
  /// Returns the number of items of each row in all slices; null: that of the rows here.
  const std::int32_t* sizes() const { return sizes_.data(); }
  std::int64_t first_user() const { return first_user_; }
  /// Returns the number of items of the slice.
  std::int64_t items() const { return items_; }
  /// Returns the number of items of all slices.
  std::int64_t all_items() const { return all_items_; }
  device::ItemSlices& slices() const { return slices_; }
  bool resident() const { return device_ids_.size() > 0; }  ///< false also if there are no entries
  std::int64_t entries_of(std::span<const std::int64_t> rows) const;

  std::vector<std::int64_t> host_offsets;  // (rows + 1), starting at 0

 private:
  std::int64_t first_user_;
  std::int64_t items_;
  std::int64_t all_items_;
  device::ItemSlices& slices_;
  std::string description_;
  DeviceArray<std::int64_t> offsets_;
  DeviceArray<std::int32_t> sizes_;
  // Exactly one of these is used:
  DeviceArray<std::byte> device_ids_;
  PinnedArray<std::byte> host_ids_;
};

/// An order of batches that was uploaded beside the steps of another one.
struct UploadedOrder {
  Stream stream;
  Event started;                    // in the device's stream: the last order was copied from here
  std::vector<std::int64_t> begin;  // empty: none, or it was started
  std::int64_t rows = 0;
  std::int64_t max_users = 0;
  std::int64_t max_entries = 0;
  DeviceArray<std::int64_t> device_begin;
  DeviceArray<std::int64_t> device_rows;
};

/// The current batch, written by kernels only. Device arrays have capacity for `max_users` users and
/// `max_entries` interactions; the actual number of interactions is offsets[users], which the host need not
/// read.
class Batch {
 public:
  Batch(Gpu& gpu, AllocationEpoch& allocation_epoch) : gpu_(gpu), allocation_epoch_(allocation_epoch) {}
  std::int64_t users() const { return users_; }
  device::ItemSlices& slices() const { return *slices_; }
  Range own() const { return slices().own_users(users()); }
  /// Returns the rows of each part in exchanges of activations.
  std::int64_t part_rows() const { return slices().part_rows(users()); }
  /// Returns the items that this rank holds.
  ItemSlice slice() const { return slices().slice(all_items); }
  /// Returns the numbers of items of the users' rows in all slices, from user `first` on.
  RowSizes row_sizes(std::int64_t first = 0) const {
    return {offsets.data() + first, has_sizes ? sizes.data() + first : nullptr};
  }
  /// Ensures the given capacities. If an array must grow, its contents are lost and graphs become invalid.
  void reserve(std::int64_t users, std::int64_t entries, std::int64_t items, bool with_transpose);

  std::int64_t users_ = 0;
  device::ItemSlices* slices_ = &device::one_slice();
  std::int64_t items = 0;  // of the slice
  std::int64_t all_items = 0;
  std::int64_t max_entries = 0;
  bool has_transpose = false;
  bool has_sizes = false;
  DeviceArray<std::uint32_t> user_numbers;  // (users)
  DeviceArray<std::int32_t> sizes;          // (users), of all slices; only with has_sizes
  DeviceArray<std::int64_t> offsets;        // (users + 1)
  DeviceArray<std::int32_t> columns;        // (entries)
  // The transpose: users of item i are item_users[item_begin[i] .. item_begin[i + 1]), ascending.
  DeviceArray<std::int64_t> item_begin;   // (items + 1)
  DeviceArray<std::uint32_t> item_users;  // (entries)
  // Temporaries of the transpose: entries as (item, user); keys past the last entry are `items`.
  DeviceArray<std::uint32_t> keys, sorted_keys, entry_users;

 private:
  Gpu& gpu_;
  AllocationEpoch& allocation_epoch_;
};

/// Row indices of every batch of an epoch on the device, and the size of the largest batch.
class BatchSchedule {
 public:
  std::int64_t batches() const { return static_cast<std::int64_t>(begin.size()) - 1; }
  std::int64_t users(std::int64_t batch) const { return begin[batch + 1] - begin[batch]; }

  std::vector<std::int64_t> begin{0};      // (batches + 1)
  DeviceArray<std::int64_t> device_begin;  // (batches + 1)
  DeviceArray<std::int64_t> device_rows;   // (all users of the epoch)
  // Maxima over all batches so far; max_entries includes a margin, so that later epochs fit the captured
  // graphs.
  std::int64_t max_users = 0;
  std::int64_t max_entries = 0;
  UploadedOrder next;
};

/// Parameters and losses of a step in device memory.
struct DeviceStepState {
  device::StepParams params;
  double nll = 0.0;  // of the current step
  double kl = 0.0;
  double weighted_kl = 0.0;  // the part whose weight depends on the user
  std::int64_t users = 0;
  double squares = 0.0;  // of the gradient parts inspected so far
  device::LossSums sums;
  device::LossScale scale{1.0F, 0};

  /// Returns whether the losses of the current step are finite.
  VAECF_HD bool finite() const { return nll - nll == 0.0 && kl - kl == 0.0; }
};

/// A loss term of each user of a batch, to be added to the step's losses.
struct UserLosses {
  DeviceArray<double> memory;
  std::int64_t users = 0;    ///< 0: none, or added already
  std::int64_t counted = 0;  ///< users that the step's number of users includes: the own ones
};

/// The state of a step in device memory, and its read-back.
class StepState {
 public:
  explicit StepState(Gpu& gpu)
      : device_state(gpu, 1, "the state of a step"),
        gradient_stats(gpu, 2, "the state of a step"),
        readback(1) {}

  /// Parameters of begin_step(), for decisions on the host.
  device::StepParams params;
  DeviceArray<DeviceStepState> device_state;
  FloatBuffer gradient_stats;  ///< overflows and squares
  // Losses that end_step() adds: a graph of the operations that computed them must include it.
  UserLosses nll;
  UserLosses kl;
  UserLosses weighted_kl;
  // Asynchronous read-back of the losses.
  PinnedArray<DeviceStepState> readback;
  Event arrived;
  bool readback_pending = false;
  std::int64_t polls = 0;
  bool has_losses = false;
  device::LossSums last_losses;
};

/// Metrics (metrics, users) in device memory, and their read-back.
class MetricValues {
 public:
  MetricValues(Gpu& gpu, std::size_t metrics, std::int64_t user_count)
      : users(user_count),
        values(gpu, static_cast<std::int64_t>(metrics) * user_count, "metrics"),
        readback(values.size()) {}
  std::int64_t users;
  DeviceArray<double> values;
  PinnedArray<double> readback;
};

/// Captured operations, and the generation of the memory that they use.
struct Graph {
  CapturedGraph work;
  std::uint64_t allocation_epoch;
};

/// Time stamps by events on the device's clock.
class DeviceTimer {
 public:
  explicit DeviceTimer(Stream& stream) : stream_(stream) {}
  void record();
  std::vector<double> elapsed();
  std::chrono::steady_clock::time_point last_record_time() const { return last_; }

 private:
  Stream& stream_;
  std::vector<Event> events_;
  std::size_t used_ = 0;
  std::chrono::steady_clock::time_point last_;
};

using Moments = device::Moments<FloatBuffer>;
using FusedUpdate = device::FusedUpdate<Parameters, FloatBuffer>;
using SideFeatures = device::SideFeatures<Batch>;

/// Temporary device memory of operations, kept between calls; one slot per purpose.
class Scratch {
 public:
  enum Slot {
    logits,
    hidden,
    segments,
    products,
    per_user,
    per_entry,
    targets,
    ranks,
    flags,
    sums,
    halves,
    operand_halves,
    gathered,
    group_sums,
    exchanged,
    slots
  };
  Scratch(Gpu& gpu, AllocationEpoch& allocation_epoch) : gpu_(gpu), allocation_epoch_(allocation_epoch) {}
  /// Returns at least `bytes`, not zeroed. Growth invalidates graphs. Throws std::logic_error during a
  /// capture.
  void* bytes(Slot slot, std::int64_t bytes, const char* what);
  template <class T>
  T* get(Slot slot, std::int64_t size, const char* what) {
    return static_cast<T*>(bytes(slot, size * static_cast<std::int64_t>(sizeof(T)), what));
  }

 private:
  Gpu& gpu_;
  AllocationEpoch& allocation_epoch_;
  DeviceArray<std::byte> memory_[slots];
};

}  // namespace vaecf::cuda
