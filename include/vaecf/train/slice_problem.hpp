#pragma once

#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/slice_plan.hpp>
#include <vaecf/model/network_shape.hpp>
#include <vaecf/train/train.hpp>

#include <cstdint>
#include <vector>

namespace vaecf::train {

/// Returns the sizes that determine the traffic of a step of a model with the tensors `tensors` on the ranks
/// of `world`, and with it the number of item slices. `items` is the number of items.
inline comm::SliceProblem slice_problem(const TrainingConfig& options,
                                        const std::vector<device::TensorSpec>& tensors, std::int64_t items,
                                        const comm::Communicator& world) {
  using device::TensorKind;
  comm::SliceProblem problem;
  problem.ranks = world.size();
  problem.ranks_per_host = world.local_size();
  problem.items = items;
  problem.batch_users = options.train.batch_size;
  double input_width = 0.0;
  double output_width = 0.0;
  for (const device::TensorSpec& tensor : tensors) {
    const auto count = static_cast<double>(tensor.logical_rows() * tensor.logical_columns());
    const bool input = tensor.kind == TensorKind::input_table && tensor.logical_rows() == items &&
                       !tensor.name.ends_with("/feature_weight");
    const bool output = tensor.kind == TensorKind::output_table;
    if (input) input_width = static_cast<double>(tensor.columns);
    if (output) output_width = static_cast<double>(tensor.rows);
    (input || output || tensor.kind == TensorKind::output_bias ? problem.table_parameters
                                                               : problem.middle_parameters) += count;
  }
  // Of each user, the sums of the input layer and the gradient of the output layer's input are reduced over
  // slices, and that input and the gradient of the sums are gathered.
  problem.exchanged_per_user = 2.0 * (input_width + output_width);
  return problem;
}

}  // namespace vaecf::train
