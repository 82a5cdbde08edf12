#pragma once

#include <vaecf/device/model_parallel_group.hpp>
#include <vaecf/device/tensor_layout.hpp>
#include <vaecf/models/kinds.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace vaecf::io {
class DatasetFile;
}

namespace vaecf::models {

/// Sizes of the input: number of items of all item slices, number of features per user (0: none), and the
/// model-parallel group, which must outlive the model.
struct InputDims {
  InputDims(std::int64_t item_count, std::int64_t feature_count = 0,
            device::ModelParallelGroup& ranks = device::single_rank())
      : items(item_count), features(feature_count), model_parallel(&ranks) {}
  std::int64_t items;
  std::int64_t features;
  device::ModelParallelGroup* model_parallel;

  /// Returns this rank's item slice, or nullopt if it holds all of them.
  std::optional<ItemSlice> item_slice() const {
    return model_parallel->count() > 1 ? std::optional(model_parallel->item_slice(items)) : std::nullopt;
  }
};

/// Returns the input dimensions of the model of `options`: the items of `dataset`, its user features unless
/// model.user_features is false or the model takes none, and the model-parallel group.
InputDims input_dims(const ModelOptions& options, const io::DatasetFile& dataset,
                     device::ModelParallelGroup& model_parallel = device::single_rank());

/// Returns the tensors of a model of type `options.type`, in the same order. Throws InputError if the type
/// is solved or `options` are not valid for it.
std::vector<device::TensorSpec> tensor_specs(const ModelOptions& options, InputDims inputs);

/// Returns the layout with the begin of each run of tensors that are item slices, and of tensors that are
/// not, rounded up to a multiple of `multiple` elements, so that each run can be reduced over other ranks.
/// Layouts without item slices do not change.
device::ParameterLayout align_item_slices(device::ParameterLayout layout, std::int64_t multiple);

/// Returns whether item slices divide a tensor of a model of `items` items: a table of items or their biases.
bool is_divided(const device::TensorSpec& tensor, std::int64_t items);
/// Returns the number of weights and biases of the whole model.
std::int64_t parameter_count(const std::vector<device::TensorSpec>& tensors);
/// Returns the number of weights and biases on a rank of one of `item_slices` item slices of `items` items.
double parameters_of_rank(const std::vector<device::TensorSpec>& tensors, std::int64_t items,
                          int item_slices);
/// Returns the number of weights in dense layers of the whole model. Input tables are excluded, because their
/// layer is a gather.
std::int64_t dense_weights(const std::vector<device::TensorSpec>& tensors);
}  // namespace vaecf::models
