#pragma once

#include <vaecf/base/half_precision.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/device/model_parallel_group.hpp>
#include <vaecf/device/step.hpp>
#include <vaecf/math/metrics.hpp>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace vaecf::device {

/// The role of a tensor in the network, which determines its storage.
enum class TensorKind {
  input_table,   ///< (items, width) or (features, width): embedding table, of which a user's rows are summed
  matrix,        ///< (inputs, outputs): a dense layer; the transpose of torch.nn.Linear.weight
  output_table,  ///< (width, items): the last layer, which computes one logit per item
  item_table,    ///< (width, items), stored as one row per item: both an input and an output table
  bias,          ///< (1, outputs)
  output_bias,   ///< (1, items)
  gain,          ///< (1, outputs): factors of a layer normalization
  offset,        ///< (1, outputs): terms that a layer normalization adds
};

/// Shape of a tensor on this rank: row-major, input dimension first. In a checkpoint it has the logical
/// shape, which is the same unless the tensor is an item slice.
struct TensorSpec {
  std::string name;  ///< e.g. "encoder_1/weight"
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  TensorKind kind = TensorKind::matrix;
  bool decays = false;  ///< subject to weight decay: true for weights, false for vectors
  /// The items that this rank stores, if a model-parallel group shares the tensor.
  std::optional<ItemSlice> item_slice = std::nullopt;

  /// Returns whether the items are rows: of an input table. They are columns of the other tensors of items.
  bool has_item_rows() const { return kind == TensorKind::input_table; }
  std::int64_t logical_rows() const { return item_slice && has_item_rows() ? item_slice->all : rows; }
  std::int64_t logical_columns() const { return item_slice && !has_item_rows() ? item_slice->all : columns; }
  /// Returns the row-major index in the logical tensor of stored element (row, column).
  std::int64_t logical_index(std::int64_t row, std::int64_t column) const {
    if (item_slice && has_item_rows()) row = item_slice->global(row);
    if (item_slice && !has_item_rows()) column = item_slice->global(column);
    return row * logical_columns() + column;
  }
};

/// Location of one tensor in the flat buffers of a device. Offsets and sizes are in elements.
struct TensorLayout {
  TensorSpec spec;
  Range range;              ///< position in a flat buffer, padding included
  std::int64_t stride = 0;  ///< distance between the beginnings of stored rows
  bool transposed = false;  ///< stored as (columns, rows), as output tables on the CPU: one row per item
};

/// The layout of the flat buffers of weights, gradients and both moments. Tensors are in the order in which
/// the backward pass completes their gradients (output layer first, input layer last). Padding is zero, and
/// no loss, metric or file includes it.
struct ParameterLayout {
  std::vector<TensorLayout> tensors;
  std::int64_t size = 0;  ///< elements of a flat buffer, padding included

  /// Returns the index of the tensor called `name`. Throws std::out_of_range if there is none.
  int find(std::string_view name) const {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if (tensors[t].spec.name == name) return static_cast<int>(t);
    }
    throw std::out_of_range("no tensor is called " + std::string(name));
  }
  /// Returns the indices of the tensors within flat elements `elements`.
  Range tensors_in(Range elements) const {
    const auto first = std::ranges::lower_bound(
        tensors, elements.begin, {}, [](const TensorLayout& tensor) { return tensor.range.begin; });
    const auto end = std::ranges::upper_bound(tensors, elements.end, {},
                                              [](const TensorLayout& tensor) { return tensor.range.end; });
    return {first - tensors.begin(), end - tensors.begin()};
  }
  /// Returns the number of parameters of tensors `which`, without padding.
  std::int64_t parameter_count(Range which) const {
    std::int64_t count = 0;
    for (std::int64_t t = which.begin; t < which.end; ++t) {
      const TensorSpec& spec = tensors[static_cast<std::size_t>(t)].spec;
      count += spec.rows * spec.columns;
    }
    return count;
  }
  std::int64_t parameter_count() const {
    return parameter_count({0, static_cast<std::int64_t>(tensors.size())});
  }
};

/// Returns the layout with tensor `first` and those after it moved up, so that it begins at a multiple of
/// `multiple` elements.
inline ParameterLayout align_tensor(ParameterLayout layout, std::size_t first, std::int64_t multiple) {
  const std::int64_t begin = layout.tensors[first].range.begin;
  const std::int64_t shift = (begin + multiple - 1) / multiple * multiple - begin;
  for (std::size_t i = first; i < layout.tensors.size(); ++i) {
    layout.tensors[i].range.begin += shift;
    layout.tensors[i].range.end += shift;
  }
  layout.size += shift;
  return layout;
}

/// A dense layer: indices of its weight and bias in ParameterLayout::tensors. An input layer may have no bias
/// (-1); then it has no activation.
struct Layer {
  int weight = -1;
  int bias = -1;
};

/// A layer normalization: indices of its gain and offset in ParameterLayout::tensors.
struct Norm {
  int gain = -1;
  int offset = -1;
};

/// Zero-initialized memory of `size()` elements that a device made, which must outlive it. The host may
/// access the memory of a CPU device only.
template <class T>
class Array {
 public:
  Array() = default;
  /// Takes over `owner`, a device's own array with data() and size().
  template <class Owner>
  explicit Array(Owner owner) {
    const auto held = std::make_shared<Owner>(std::move(owner));
    memory_ = std::shared_ptr<T>(held, held->data());
    size_ = held->size();
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  Array(Array&& other) noexcept : memory_(std::move(other.memory_)), size_(std::exchange(other.size_, 0)) {}
  Array& operator=(Array&& other) noexcept {
    memory_ = std::move(other.memory_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  ~Array() = default;

  T* data() { return memory_.get(); }
  const T* data() const { return memory_.get(); }
  std::int64_t size() const { return size_; }

 private:
  std::shared_ptr<T> memory_;
  std::int64_t size_ = 0;
};

using Buffer = Array<float>;     ///< flat values: weights, gradients, moments
using Bf16Buffer = Array<Bf16>;  ///< flat values to be communicated in bf16

/// The rows() by columns() values of the current batch, row-major with stride() elements from row to row and
/// zeros after the columns. On a GPU in 16-bit precisions there is a second copy as product operand; every
/// writer must write both. There are two exceptions: the copy of a gradient with respect to a layer's output
/// is undefined until the layer's backward pass has converted the gradient to that before the activation, and
/// so are the copies of s and of both sums of RecVAE's layers.
class Matrix {
 public:
  Matrix() = default;
  /// Makes a matrix of 0 rows and `columns` columns in `values`, and `copy` unless it is empty.
  Matrix(std::int64_t columns, std::int64_t stride, Buffer values, Array<std::uint16_t> copy = {})
      : columns_(columns), stride_(stride), values_(std::move(values)), copy_(std::move(copy)) {}

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  std::int64_t stride() const { return stride_; }
  std::int64_t max_rows() const { return stride_ == 0 ? 0 : values_.size() / stride_; }
  /// Sets the number of rows in use; those behind them are undefined. Throws std::logic_error if it exceeds
  /// max_rows().
  void set_rows(std::int64_t rows) {
    if (rows < 0 || rows > max_rows()) {
      throw std::logic_error("a matrix made for " + std::to_string(max_rows()) + " rows cannot hold " +
                             std::to_string(rows));
    }
    rows_ = rows;
  }
  float* values() { return values_.data(); }
  const float* values() const { return values_.data(); }
  float* row(std::int64_t r) { return values_.data() + r * stride_; }
  const float* row(std::int64_t r) const { return values_.data() + r * stride_; }
  std::uint16_t* copy() { return copy_.data(); }  ///< null unless there is a 16-bit copy
  /// Returns the 16-bit copy if there is one, else the values.
  const void* operand() const {
    return copy_.size() == 0 ? static_cast<const void*>(values_.data()) : copy_.data();
  }

 private:
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  std::int64_t stride_ = 0;
  Buffer values_;
  Array<std::uint16_t> copy_;
};

/// The weights: fp32 masters in the flat layout, and 16-bit copies of flat elements copied() as product
/// operands: of the output table on a CPU in bf16, of all on a GPU in bf16 and fp16, of none in fp32.
class Parameters {
 public:
  Parameters() = default;
  Parameters(ParameterLayout layout, Buffer master, Range copied, Array<std::uint16_t> copies)
      : layout_(std::move(layout)), master_(std::move(master)), copied_(copied), copies_(std::move(copies)) {}

  const ParameterLayout& layout() const { return layout_; }
  Buffer& master() { return master_; }
  const Buffer& master() const { return master_; }
  const float* weights(int tensor) const { return master_.data() + layout_.tensors[tensor].range.begin; }
  Range copied() const { return copied_; }
  /// Returns the address of the copy of flat element `i`, or null if it has none.
  std::uint16_t* copy_of(std::int64_t i) {
    return i >= copied_.begin && i < copied_.end ? copies_.data() + (i - copied_.begin) : nullptr;
  }
  /// Returns the copy of `tensor` if there is one, else its weights.
  const void* operand(int tensor) const {
    const std::int64_t i = layout_.tensors[tensor].range.begin;
    if (i < copied_.begin || i >= copied_.end) return weights(tensor);
    return copies_.data() + (i - copied_.begin);
  }
  /// Returns the number of parameters of tensors `which` that have a copy, without padding.
  std::int64_t copied_count(Range which) const {
    std::int64_t count = 0;
    for (auto t = static_cast<int>(which.begin); t < which.end; ++t)
      if (operand(t) != weights(t)) count += layout_.parameter_count({t, t + 1});
    return count;
  }

 private:
  ParameterLayout layout_;
  Buffer master_;
  Range copied_;
  Array<std::uint16_t> copies_;
};

// The objects that differ between devices. A device makes them, must outlive them, and is the only
// one that accesses their members, by own().

struct Opaque {
  Opaque() = default;
  Opaque(const Opaque&) = delete;
  Opaque& operator=(const Opaque&) = delete;
  virtual ~Opaque() = default;
};

/// Returns `object` as the class that the calling device made it of.
template <class Mine, class Base>
auto& own(Base& object) {
  using Result = std::conditional_t<std::is_const_v<Base>, const Mine, Mine>;
  assert(dynamic_cast<Result*>(&object) != nullptr);  // an object of another device
  return static_cast<Result&>(object);
}

/// The parameters of a step, its losses, the sums of losses and the loss scale, in device memory.
struct StepState : Opaque {};
/// Ranking metrics of users.
struct MetricValues : Opaque {};
/// Captured operations, which Device::replay() runs on the current contents of the step state.
struct Graph : Opaque {};

/// Sparse rows of training or held-out users.
struct UserRows : Opaque {
  virtual std::int64_t rows() const = 0;
  /// Returns the number of items of these rows.
  virtual std::int64_t entries_of(std::span<const std::int64_t> rows) const = 0;
  /// Returns where the rows are stored and why, as one line for the log; may be empty.
  virtual std::string description() const = 0;
};

/// The row indices of every batch of an epoch.
struct BatchSchedule : Opaque {
  std::int64_t batches() const { return static_cast<std::int64_t>(begin.size()) - 1; }
  std::int64_t users(std::int64_t batch) const { return begin[batch + 1] - begin[batch]; }

  std::vector<std::int64_t> begin{0};  ///< (batches + 1) of the batches in the row indices
};

/// A batch X (B, I) of users, and its transpose.
struct Batch : Opaque {
  virtual std::int64_t users() const = 0;
  ModelParallelGroup& model_parallel() const { return *model_parallel_; }
  /// Returns the users whose activations this rank has.
  Range own() const { return model_parallel_->own_users(users()); }

  ModelParallelGroup* model_parallel_ = &single_rank();
};

/// Time stamps of the device.
struct Timer : Opaque {
  /// Adds a time stamp, taken when all earlier operations are done. Not during a capture.
  virtual void record() = 0;
  /// Returns the seconds between consecutive time stamps and removes all. Blocks until the last one.
  virtual std::vector<double> elapsed() = 0;
  /// Returns the last time stamp of the previous elapsed() on the host's clock.
  virtual std::chrono::steady_clock::time_point last_record_time() const = 0;
};

/// Device::export_rows() for one other thread, while the device works.
struct Exporter : Opaque {
  /// Makes export_rows() wait for `done`.
  virtual void wait_event(EventHandle done) = 0;
  virtual void export_rows(const ParameterLayout& layout, int tensor, Range rows, const Buffer& flat,
                           std::span<float> logical) = 0;
};

/// A dense matrix B (I, I) of weights between items, and the scores x B of at most max_users users.
struct ItemMatrix : Opaque {
  virtual std::int64_t max_users() const = 0;
  /// Gives these items the score -infinity until the next call.
  virtual void exclude_items(std::span<const std::int32_t> items) = 0;
  /// Computes the scores of the users of `batch`, who have `entries` items.
  virtual void score(const Batch& batch, std::int64_t entries) = 0;
  /// These are the operations of Device with the scores of the last score() of as many users.
  virtual void compute_metrics(const Batch& batch, const UserRows& targets, Range rows,
                               std::span<const math::Metric> metrics, MetricValues& values) = 0;
  virtual void top_k(const Batch& batch, int k, std::span<std::int32_t> items, std::span<float> scores) = 0;
};

}  // namespace vaecf::device
