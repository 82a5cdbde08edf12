#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/models/trainable_model.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace vaecf::training {

/// Sizes that determine the traffic of a step on R ranks whose items are divided into S item slices, with D =
/// R / S model-parallel groups. Parameters are those of the whole model.
struct ItemSliceProblem {
  int ranks = 1;
  int ranks_per_host = 1;
  std::int64_t items = 0;
  std::int64_t batch_users = 0;    ///< users per step over all ranks
  double table_parameters = 0.0;   ///< weights of all tensors of items
  double middle_parameters = 0.0;  ///< weights of all other tensors
  double input_width = 0.0;        ///< of the sums of the input layer
  double output_width = 0.0;       ///< of the input of the output layer
  bool half_gathers = false;       ///< the device gathers activations in 16 bits: a GPU in bf16 or fp16
  double memory_rate_ratio_within = 5.0;    ///< bytes of memory traffic in the time of one byte within a host
  double memory_rate_ratio_between = 60.0;  ///< bytes of memory traffic in that of one between hosts
};

/// Returns the sizes that determine the traffic of a step of `batch_users` users, over all ranks, of a model
/// with the tensors `tensors` on the ranks of `world` with devices like `device`, and with it the number of
/// item slices. `items` is the number of items.
inline ItemSliceProblem item_slice_problem(std::int64_t batch_users,
                                           const std::vector<device::TensorSpec>& tensors, std::int64_t items,
                                           const comm::Communicator& world,
                                           const device::DeviceFacts& device) {
  using device::TensorKind;
  ItemSliceProblem problem;
  problem.ranks = world.size();
  problem.ranks_per_host = world.local_size();
  problem.items = items;
  problem.batch_users = batch_users;
  problem.half_gathers =
      device.kind == device::DeviceKind::cuda &&
      (device.precision == device::Precision::bf16 || device.precision == device::Precision::fp16);
  for (const device::TensorSpec& tensor : tensors) {
    const auto count = static_cast<double>(tensor.logical_rows() * tensor.logical_columns());
    const bool divided = models::is_divided(tensor, items);
    if (divided && tensor.kind == TensorKind::input_table)
      problem.input_width = static_cast<double>(tensor.columns);
    if (tensor.kind == TensorKind::output_table) problem.output_width = static_cast<double>(tensor.rows);
    (divided ? problem.table_parameters : problem.middle_parameters) += count;
  }
  return problem;
}

/// Returns the bytes of the activations of `users` users of a model-parallel group in the exchanges of a
/// step. The sums of the input layer and the gradient of the output layer's input are reduced over item
/// slices, in fp32; that input and the gradient of the sums are gathered.
inline double exchanged_bytes(const ItemSliceProblem& problem, double users) {
  constexpr double fp32 = sizeof(float);
  const double output = problem.half_gathers ? sizeof(Bf16) : fp32;
  const bool narrow =
      problem.half_gathers && device::reads_half_gradient(static_cast<std::int64_t>(users),
                                                          static_cast<std::int64_t>(problem.input_width));
  const double input = narrow ? sizeof(Bf16) : fp32;
  return users * ((fp32 + input) * problem.input_width + (fp32 + output) * problem.output_width);
}

/// Bytes that each rank sends per step with ring collectives, gradients in fp32.
struct ItemSliceTraffic {
  double activations =
      0.0;              ///< within the model-parallel group: activations and the statistics of the softmax
  double middle = 0.0;  ///< sum of the other tensors' gradients over all ranks
  double tables = 0.0;  ///< sum of the tables' gradients over the ranks with the same item slice
  double total() const { return activations + middle + tables; }
};

/// Returns the traffic with `item_slices` item slices, which must divide the number of ranks. A
/// reduce-scatter or an all-gather of b rows sends (S - 1) / S of them; an all-reduce twice the same.
inline ItemSliceTraffic item_slice_traffic(const ItemSliceProblem& problem, int item_slices) {
  const double model_parallel_groups = static_cast<double>(problem.ranks) / item_slices;
  const double users = static_cast<double>(problem.batch_users) / model_parallel_groups;
  const double others = (item_slices - 1.0) / item_slices;
  constexpr double bytes = sizeof(float);
  return {.activations = exchanged_bytes(problem, users) * others + 2.0 * bytes * users * (item_slices - 1.0),
          .middle = 2.0 * bytes * problem.middle_parameters * (problem.ranks - 1.0) / problem.ranks,
          .tables = 2.0 * bytes * problem.table_parameters / item_slices * (model_parallel_groups - 1.0) /
                    model_parallel_groups};
}

/// Returns the estimated time of communication and update per step, in bytes of memory traffic. An update
/// reads and writes weights, two moments and the gradient: 32 bytes per parameter.
inline double item_slice_cost(const ItemSliceProblem& problem, int item_slices) {
  const ItemSliceTraffic sent = item_slice_traffic(problem, item_slices);
  const double within = problem.memory_rate_ratio_within;
  const double between = problem.memory_rate_ratio_between;
  const bool one_host = problem.ranks <= problem.ranks_per_host;
  return sent.activations * (item_slices <= problem.ranks_per_host ? within : between) +
         (sent.middle + sent.tables) * (one_host ? within : between) +
         32.0 * problem.table_parameters / item_slices;
}

/// Returns the divisors of `ranks`, ascending.
inline std::vector<int> divisors(int ranks) {
  std::vector<int> all;
  for (int s = 1; s <= ranks; ++s)
    if (ranks % s == 0) all.push_back(s);
  return all;
}

/// Chooses the number of item slices: of the divisors of the number of ranks that leave at least 1,024 items
/// per item slice and fit into 80 % of the memory, the one with the least cost; the smallest of those within
/// 10 % of it. `needed` returns the bytes that a rank needs with a number of item slices, and `memory` are
/// those that it has. Returns the number and the reason, for the log. Throws InputError if nothing fits.
inline std::pair<int, std::string> plan_item_slices(const ItemSliceProblem& problem,
                                                    const std::function<double(int item_slices)>& needed,
                                                    double memory) {
  constexpr std::int64_t min_items = 1024;
  constexpr double gib = 1073741824.0;
  std::vector<int> candidates;
  for (const int s : divisors(problem.ranks)) {
    const bool fits = needed(s) <= 0.8 * memory;
    if ((s == 1 || problem.items / s >= min_items) && fits) candidates.push_back(s);
  }
  if (candidates.empty()) {
    throw InputError(vaecf::format(
        "distributed.item_slices: auto: the model needs {:.1f} GiB on one rank and {:.1f} GiB on each of {} item slices, but a rank has {:.1f} GiB; start more ranks",
        needed(1) / gib, needed(problem.ranks) / gib, problem.ranks, memory / gib));
  }
  double least = item_slice_cost(problem, candidates.front());
  for (const int s : candidates) least = std::min(least, item_slice_cost(problem, s));
  const int chosen =
      *std::ranges::find_if(candidates, [&](int s) { return item_slice_cost(problem, s) <= 1.1 * least; });
  std::string reason = vaecf::format("each rank sends {:.1f} MB per step with {} item slices",
                                     item_slice_traffic(problem, chosen).total() / 1e6, chosen);
  for (const int s : divisors(problem.ranks)) {
    if (s == chosen) continue;
    const bool candidate = std::ranges::find(candidates, s) != candidates.end();
    reason +=
        vaecf::format(", {:.1f} MB with {}{}", item_slice_traffic(problem, s).total() / 1e6, s,
                      candidate ? "" : " (excluded: too few items per item slice, or not enough memory)");
  }
  return {chosen, reason};
}

}  // namespace vaecf::training
