#pragma once

#include <vaecf/base/half_precision.hpp>
#include <vaecf/base/host_device.hpp>
#include <vaecf/device/device.hpp>
#include <vaecf/device/options.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/platform/platform.hpp"

namespace vaecf::cuda {

// The storage that all devices share, and what operations take besides it.
using device::Activation, device::Backward, device::Bf16Buffer, device::Buffer, device::EventHandle,
    device::FusedUpdate, device::InputScaling, device::ModelParallelGroup, device::Layer, device::Loss,
    device::LossScale, device::LossSums, device::Matrix, device::Moments, device::Norm,
    device::OutputGradients, device::own, device::ParameterLayout, device::Parameters, device::SideFeatures,
    device::TensorLayout, device::TensorSpec, device::UpdateRange, device::UpdateRule;

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

/// Returns the bytes per item id: two if the ids of all items fit.
inline std::int64_t id_bytes(std::int64_t items) {
  return items <= 65536 ? 2 : 4;
}

/// Item ids of user rows, each of id_bytes(items) bytes.
class ItemIds {
 public:
  ItemIds() = default;
  ItemIds(const void* ids, std::int64_t items)
      : narrow_(id_bytes(items) == 2 ? static_cast<const std::uint16_t*>(ids) : nullptr),
        wide_(static_cast<const std::uint32_t*>(ids)) {}
  VAECF_HD std::int32_t operator[](std::int64_t k) const {
    return narrow_ != nullptr ? static_cast<std::int32_t>(narrow_[k]) : static_cast<std::int32_t>(wide_[k]);
  }

 private:
  const std::uint16_t* narrow_ = nullptr;
  const std::uint32_t* wide_ = nullptr;
};

/// Returns value `k` of entries whose values are `values`; 1 if that is null.
VAECF_HD inline float value_at(const float* values, std::int64_t k) {
  return values != nullptr ? values[k] : 1.0F;
}

/// Makes a matrix, with 16-bit copies unless `dtype` is fp32.
Matrix make_matrix(Gpu& gpu, std::int64_t max_rows, std::int64_t columns, DType dtype);

/// Sparse rows of users. Item ids and values are in device memory, or in pinned host memory that kernels read
/// over the bus; offsets and totals are always on the device.
class UserRows final : public device::UserRows {
 public:
  /// Rows of the item slice that `ranks` have of `item_count` items. Throws InputError if a column is
  /// not in the item slice.
  UserRows(Gpu& gpu, Stream& stream, ItemSliceView sliced, std::int64_t first, std::int64_t item_count,
           ModelParallelGroup& ranks, bool on_device, std::string description);
  std::int64_t rows() const override { return static_cast<std::int64_t>(host_offsets.size()) - 1; }
  std::int64_t entries_of(std::span<const std::int64_t> rows) const override;
  std::string description() const override { return description_; }

  ItemIds ids() const { return {device_ids_.size() > 0 ? device_ids_.data() : host_ids_.data(), items}; }
  const std::int64_t* offsets() const { return offsets_.data(); }
  /// Returns the value of each item; null: all are 1.
  const float* values() const {
    return device_values_.size() > 0 ? device_values_.data() : host_values_.data();
  }
  const RowTotals* totals() const { return totals_.data(); }

  std::vector<std::int64_t> host_offsets;  // (rows + 1), starting at 0
  const std::int64_t first_user;
  const std::int64_t items;  // of the item slice
  const std::int64_t all_items;
  ModelParallelGroup& model_parallel;

 private:
  std::string description_;
  DeviceArray<std::int64_t> offsets_;
  DeviceArray<RowTotals> totals_;
  // Ids and values are either on the device or on the host:
  DeviceArray<std::byte> device_ids_;
  DeviceArray<float> device_values_;
  PinnedArray<std::byte> host_ids_;
  PinnedArray<float> host_values_;
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
class Batch final : public device::Batch {
 public:
  Batch(Gpu& gpu, AllocationEpoch& allocation_epoch) : gpu_(gpu), allocation_epoch_(allocation_epoch) {}
  std::int64_t users() const override { return users_; }
  /// Returns the rows of each part in exchanges of activations.
  std::int64_t part_rows() const { return model_parallel().part_rows(users()); }
  ItemSlice item_slice() const { return model_parallel().item_slice(all_items); }
  /// Returns the value of each entry, and of each entry of the transpose; null: all are 1.
  const float* entry_values() const { return has_values ? values.data() : nullptr; }
  const float* transpose_values() const { return has_values ? item_values.data() : nullptr; }
  /// Ensures the given capacities. If an array must grow, its contents are lost and graphs become invalid.
  void reserve(std::int64_t users, std::int64_t entries, std::int64_t items, bool with_transpose,
               bool with_values);

  std::int64_t users_ = 0;
  std::int64_t items = 0;  // of the item slice
  std::int64_t all_items = 0;
  std::int64_t max_entries = 0;
  bool has_transpose = false;
  bool has_values = false;
  DeviceArray<std::uint32_t> user_numbers;  // (users)
  DeviceArray<RowTotals> totals;            // (users)
  DeviceArray<std::int64_t> offsets;        // (users + 1)
  DeviceArray<std::int32_t> columns;        // (entries)
  DeviceArray<float> values;                // (entries); only with has_values
  // The transpose: users of item i are item_users[item_begin[i] .. item_begin[i + 1]), ascending.
  DeviceArray<std::int64_t> item_begin;   // (items + 1)
  DeviceArray<std::uint32_t> item_users;  // (entries)
  DeviceArray<float> item_values;         // (entries); only with has_values
  // Temporaries of the transpose: entries as (item, user); keys past the last entry are `items`. With
  // has_values, the index of each entry is sorted instead of its user.
  DeviceArray<std::uint32_t> keys, sorted_keys, entry_users, entry_indices, sorted_indices;

 private:
  Gpu& gpu_;
  AllocationEpoch& allocation_epoch_;
};

/// Row indices of every batch of an epoch on the device, and the size of the largest batch.
class BatchSchedule final : public device::BatchSchedule {
 public:
  DeviceArray<std::int64_t> device_begin;  // (batches + 1)
  DeviceArray<std::int64_t> device_rows;   // (all users of the epoch)
  // Maxima over all batches so far; max_entries includes a margin, so that later epochs fit the captured
  // graphs.
  std::int64_t max_users = 0;
  std::int64_t max_entries = 0;
  UploadedOrder next;
};

/// Parameters and losses of a step in device memory.
struct DeviceStepState : device::StepValues {
  LossScale scale{1.0F, 0};
};

/// A loss term of each user of a batch, to be added to the step's losses.
struct UserLosses {
  DeviceArray<double> memory;
  std::int64_t users = 0;    ///< 0: none, or added already
  std::int64_t counted = 0;  ///< users that the step's number of users includes: the own ones
};

class StepState final : public device::StepState {
 public:
  explicit StepState(Gpu& gpu)
      : device_state(gpu, 1, "the state of a step"),
        gradient_stats(DeviceArray<float>(gpu, 2, "the state of a step")),
        readback(1) {}

  /// Parameters of begin_step(), for decisions on the host.
  device::StepParams params;
  DeviceArray<DeviceStepState> device_state;
  Buffer gradient_stats;  ///< overflows and squares
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
  LossSums last_losses;
};

class MetricValues final : public device::MetricValues {
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
struct Graph final : device::Graph {
  Graph(CapturedGraph captured, std::uint64_t epoch) : work(std::move(captured)), allocation_epoch(epoch) {}
  CapturedGraph work;
  std::uint64_t allocation_epoch;
};

class Timer final : public device::Timer {
 public:
  explicit Timer(Stream& stream) : stream_(stream) {}
  void record() override;
  std::vector<double> elapsed() override;
  std::chrono::steady_clock::time_point last_record_time() const override { return last_; }

 private:
  Stream& stream_;
  std::vector<Event> events_;
  std::size_t used_ = 0;
  std::chrono::steady_clock::time_point last_;
};

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
    ranks,
    flags,
    sums,
    halves,
    operand_halves,
    gathered,
    sums_of_all,
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

/// An operand of Products::run, converted from a pointer to its elements.
struct Operand {
  Operand(const void* elements) : values(elements) {}
  const void* values;
  const Bf16* high = nullptr;  ///< halves made by Products::split; null: not split yet
  const Bf16* low = nullptr;
};

/// Matrix products in the device's precision: those of Matmuls, except for fp32 operands in bf16x3. There,
/// each value x is split into two bf16 values, high = bf16(x) and low = bf16(x - high), and a product is
///   high high + high low + low high
/// with fp32 sums: errors are about 2^-17 of the terms. Infinities become NaN.
class Products {
 public:
  Products(Gpu& gpu, Scratch& scratch, bool deterministic, device::Precision precision);
  /// Queues a product as Matmuls::run does.
  void run(Stream& stream, const MatmulSpec& spec, const Operand& a, const Operand& b, void* c,
           const void* bias = nullptr);
  /// Returns `values` as an operand of several products: in bf16x3, with the halves of its `size` elements,
  /// which are valid until the next call. Without this, each product splits its operands.
  Operand split(Stream& stream, DType dtype, const void* values, std::int64_t size);

 private:
  void run_concatenated(Stream& stream, MatmulSpec spec, const float* a, const float* b, void* c,
                        const void* bias);
  void run_thrice(Stream& stream, MatmulSpec spec, Operand a, Operand b, void* c, const void* bias);

  Matmuls matmuls_;
  Scratch& scratch_;
  bool splits_;
};

}  // namespace vaecf::cuda
