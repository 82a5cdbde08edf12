#pragma once

#include <vaecf/base/views.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
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

}  // namespace vaecf::device
