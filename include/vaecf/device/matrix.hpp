#pragma once

#include <vaecf/device/array.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace vaecf::device {

/// The rows() by columns() values of the current batch, row-major with stride() elements from row to row and
/// zeros after the columns. On a GPU in 16-bit precisions there is a second copy as product operand; every
/// writer must write both. There are two exceptions: the copy of a gradient with respect to a layer's output
/// is undefined until the layer's backward pass has converted the gradient to that before the activation,
/// when its values become undefined if only the copy is read; and the copies of s and of both sums of
/// swish_norm() are undefined.
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

}  // namespace vaecf::device
