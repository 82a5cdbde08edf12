#include "training/traffic.hpp"

#include <vaecf/models/kind.hpp>
#include <vaecf/training/item_slice_plan.hpp>

#include <cstdint>
#include <vector>

namespace vaecf::training {
namespace {

/// Returns the mean of `of_group` over the parameter groups of the passes of an epoch.
template <class OfGroup>
double mean_over_passes(const models::ModelOptions& options, const OfGroup& of_group) {
  const std::vector<int> passes = models::trained_kind_of(options.type).passes(options);
  double sum = 0.0;
  for (const int parameter_group : passes) sum += of_group(parameter_group);
  return sum / static_cast<double>(passes.size());
}

/// Returns TrainingFacts::update_bytes of a step on `parameter_group`.
double update_bytes_of_group(int parameter_group, int ranks, models::TrainableModel& model, bool sharded,
                             std::span<const int> fused, bool on_gpu) {
  const device::ParameterLayout& layout = model.layout();
  const Range tensors = layout.tensors_in(model.parameter_groups()[parameter_group]);
  const auto parameters = static_cast<double>(layout.parameter_count(tensors));
  const double updated = sharded ? parameters / ranks : parameters;
  double gradients = parameters;  // elements
  for (const int tensor : fused) {
    const device::TensorSpec& weight = layout.tensors[tensor].spec;
    // A GPU stores the gradient of the output table before it updates the table beside later operations.
    const bool stored = weight.kind == device::TensorKind::output_bias ||
                        (weight.kind == device::TensorKind::output_table && on_gpu);
    if (!stored && tensor >= tensors.begin && tensor < tensors.end)
      gradients -= static_cast<double>(weight.rows * weight.columns);
  }
  constexpr double read_and_written = 2.0 * sizeof(float);
  const auto copies = static_cast<double>(model.parameters().copied_count(tensors));
  return (updated * 3.0 + gradients) * read_and_written + copies * sizeof(std::uint16_t);
}

}  // namespace

CommVolume comm_volume(const Options& options, const comm::RankGrid& grid, const device::DeviceFacts& device,
                       models::TrainableModel& model, const GradientExchange& exchange) {
  const ItemSliceProblem problem =
      item_slice_problem(options.train.batch_size, model.tensors(), model.items(), grid.world(), device);
  const double activations = item_slice_traffic(problem, grid.item_slices()).activations;
  const double sent = activations + mean_over_passes(options.model, [&](int group) {
                        return exchange.bytes_per_rank(group);
                      });
  return {
      .total = grid.world().size() * sent, .worker_out = sent, .worker_in = sent, .activations = activations};
}

double update_bytes(const models::ModelOptions& options, const comm::RankGrid& grid,
                    models::TrainableModel& model, const GradientExchange& exchange,
                    std::span<const int> fused, bool on_gpu) {
  return mean_over_passes(options, [&](int group) {
    return update_bytes_of_group(group, grid.world().size(), model, exchange.mode().sharded, fused, on_gpu);
  });
}

}  // namespace vaecf::training
