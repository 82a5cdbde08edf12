#pragma once

#include <vaecf/base/half_precision.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/device/parameters.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace vaecf::device {

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
/// writer must write both. There are two exceptions: the copy of a gradient by a layer's output is undefined
/// until the layer's backward pass has converted the gradient to that before the activation, and so are the
/// copies of s and of both sums of RecVAE's layers.
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

 private:
  ParameterLayout layout_;
  Buffer master_;
  Range copied_;
  Array<std::uint16_t> copies_;
};

}  // namespace vaecf::device
