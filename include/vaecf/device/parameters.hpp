#pragma once

#include <vaecf/base/views.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace vaecf::device {

/// The use of a tensor, which determines its storage.
enum class TensorKind {
  input_table,   ///< (items, width): one row is gathered per item of the user; or (features, width)
  matrix,        ///< (inputs, outputs): a dense layer
  output_table,  ///< (width, items): produces one logit per item
  bias,          ///< (1, outputs)
  output_bias,   ///< (1, items)
};

/// Logical shape of a tensor in the model and in checkpoints: row-major, input dimension first.
struct TensorSpec {
  std::string name;  ///< e.g. "encoder_1/weight"
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  TensorKind kind = TensorKind::matrix;
  bool decays = false;  ///< weight decay applies (weights yes, biases no)
};

/// Location of one tensor in the flat buffers of a device.
struct TensorLayout {
  TensorSpec spec;
  Range range;              ///< flat elements, padding included
  std::int64_t stride = 0;  ///< elements between stored rows
  bool transposed = false;  ///< stored (columns, rows): item-major output tables on the CPU
};

/// The flat layout shared by weights, gradients and both moments. Tensors are in the order in which the
/// backward pass completes their gradients (output layer first, input layer last). Padding is always zero and
/// is never part of a loss, a metric or a file.
struct ParameterLayout {
  std::vector<TensorLayout> tensors;
  std::int64_t size = 0;  ///< flat elements, padding included

  /// Returns the index of the tensor called `name`. Throws std::out_of_range if there is none.
  int find(std::string_view name) const {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if (tensors[t].spec.name == name) return static_cast<int>(t);
    }
    throw std::out_of_range("no tensor is called " + std::string(name));
  }
  /// Returns the number of parameters without padding.
  std::int64_t parameter_count() const {
    std::int64_t count = 0;
    for (const TensorLayout& tensor : tensors) count += tensor.spec.rows * tensor.spec.columns;
    return count;
  }
};

/// A dense layer: indices of its weight and bias in ParameterLayout::tensors.
struct Layer {
  int weight = -1;
  int bias = -1;
};

}  // namespace vaecf::device
