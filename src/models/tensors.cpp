#include <vaecf/base/error.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/models/kind.hpp>
#include <vaecf/models/trainable_model.hpp>

#include <cstddef>
#include <utility>

namespace vaecf::models {

InputDims input_dims(const ModelOptions& options, const io::DatasetFile& dataset,
                     device::ModelParallelGroup& model_parallel) {
  const bool uses_features =
      options.features != FeaturesInput::off && kind_of(options.type).uses("model.user_features");
  return {dataset.items(), uses_features ? dataset.features() : 0, model_parallel};
}

std::vector<device::TensorSpec> tensor_specs(const ModelOptions& options, InputDims inputs) {
  return trained_kind_of(options.type).tensors(options, inputs);
}

std::int64_t dense_weights(const std::vector<device::TensorSpec>& tensors) {
  std::int64_t weights = 0;
  for (const device::TensorSpec& tensor : tensors) {
    const bool dense =
        tensor.kind == device::TensorKind::matrix || tensor.kind == device::TensorKind::output_table;
    if (dense) weights += tensor.logical_rows() * tensor.logical_columns();
  }
  return weights;
}

std::int64_t parameter_count(const std::vector<device::TensorSpec>& tensors) {
  std::int64_t count = 0;
  for (const device::TensorSpec& tensor : tensors) count += tensor.logical_rows() * tensor.logical_columns();
  return count;
}

bool is_divided(const device::TensorSpec& tensor, std::int64_t items) {
  using enum device::TensorKind;
  // Features have a table of their own.
  const bool input = tensor.kind == input_table && tensor.logical_rows() == items &&
                     !tensor.name.ends_with("/feature_weight");
  return input || tensor.kind == output_table || tensor.kind == item_table || tensor.kind == output_bias;
}

double parameters_of_rank(const std::vector<device::TensorSpec>& tensors, std::int64_t items,
                          int item_slices) {
  double divided = 0.0;
  double others = 0.0;
  for (const device::TensorSpec& tensor : tensors) {
    const auto count = static_cast<double>(tensor.logical_rows() * tensor.logical_columns());
    (is_divided(tensor, items) ? divided : others) += count;
  }
  return divided / item_slices + others;
}

device::ParameterLayout align_item_slices(device::ParameterLayout layout, std::int64_t multiple) {
  for (std::size_t i = 1; i < layout.tensors.size(); ++i) {
    const bool begins_run =
        layout.tensors[i].spec.item_slice.has_value() != layout.tensors[i - 1].spec.item_slice.has_value();
    if (begins_run) layout = device::align_tensor(std::move(layout), i, multiple);
  }
  return layout;
}

}  // namespace vaecf::models
