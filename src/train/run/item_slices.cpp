#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/base/host.hpp>
#include <vaecf/comm/slice_plan.hpp>
#include <vaecf/model/model.hpp>
#include <vaecf/model/network_shape.hpp>
#include <vaecf/train/slice_problem.hpp>
#include <vaecf/train/train.hpp>

#include <algorithm>
#include <string>

namespace vaecf::train {
namespace {

/// Returns "1, 2, 4 or 8".
std::string alternatives(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    text += format("{}{}", i == 0 ? "" : i + 1 == numbers.size() ? " or " : ", ", numbers[i]);
  }
  return text;
}

/// Throws InputError if the model or the strategy cannot divide the items.
void require_divisible_model(const TrainingConfig& options, std::int64_t slices) {
  if (model::is_solved(options.model.type)) {
    throw InputError(format(
        "distributed.item_slices: {} requires a model that is trained in steps, but model.type is {}, whose columns are divided over the ranks anyway; set item_slices to 1",
        slices, vaecf::to_string(options.model.type)));
  }
  if (options.distributed.strategy == comm::Strategy::parameter_server) {
    throw InputError(format(
        "distributed.item_slices: {} is not possible with distributed.strategy: parameter_server, whose servers store all items; set item_slices to 1, or strategy to allreduce",
        slices));
  }
}

/// Throws InputError if `slices` does not divide the ranks, or leaves slices without items.
void require_divisible_ranks(std::int64_t slices, std::int64_t items, int ranks) {
  if (slices > ranks || ranks % slices != 0) {
    const std::int64_t fewer = ranks / slices * slices;
    const std::string start =
        fewer > 0 ? format("start {} or {} ranks", fewer, fewer + slices) : format("start {} ranks", slices);
    throw InputError(format("distributed.item_slices: {} does not divide {} ranks; give {}, or {}", slices,
                            ranks, alternatives(comm::divisors(ranks)), start));
  }
  if (slices > items) {
    throw InputError(
        format("distributed.item_slices: {} slices of {} items leave some without any; give at most {}",
               slices, items, items));
  }
}

}  // namespace

int choose_item_slices(const TrainingConfig& options, const model::InputDims& inputs,
                       const RunContext& context) {
  const std::int64_t wanted = options.distributed.item_slices;
  const int ranks = context.communicator.size();
  if (wanted == 1) return 1;
  const bool divisible =
      !model::is_solved(options.model.type) && options.distributed.strategy == comm::Strategy::allreduce;
  if (wanted == comm::automatic_item_slices) {
    if (!divisible || ranks == 1) return 1;
    const auto tensors = model::tensor_specs(options.model, inputs);
    comm::SliceProblem problem = slice_problem(options, tensors, inputs.items, context.communicator);
    const bool gpu = context.device.facts().kind != device::DeviceKind::cpu;
    if (gpu) problem.memory_rate_ratio_within = 8.0;  // NVLink
    // The memory of a GPU is known to its device only, which reports a lack of it.
    if (!gpu) problem.memory_bytes = free_memory_bytes() / context.communicator.local_size();
    const auto [slices, reason] = comm::choose_slices(problem);
    context.log.info("distributed.item_slices: auto: {}, since {}", slices, reason);
    return slices;
  }
  if (wanted == comm::all_item_slices && ranks == 1) return 1;
  const std::int64_t slices = wanted == comm::all_item_slices ? ranks : wanted;
  require_divisible_model(options, slices);
  require_divisible_ranks(slices, inputs.items, ranks);
  constexpr std::int64_t few_items = 256;
  if (inputs.items / slices < few_items) {
    context.log.warn(
        "distributed.item_slices: {} slices of {} items have fewer than {} each, and much of the work is padding; fewer slices are faster",
        slices, inputs.items, few_items);
  }
  const int local = context.communicator.local_size();
  if (local < ranks && (local % slices != 0 || slices > local)) {
    context.log.warn(
        "distributed.item_slices: the {} ranks of a group are on several hosts, which exchange activations in every step; if possible, start a multiple of {} ranks on each host, as with mpirun --map-by ppr:{}:node",
        slices, slices, slices);
  }
  return static_cast<int>(slices);
}

std::shared_ptr<const comm::RankGrid> divide_ranks(comm::Communicator& ranks, int slices) {
  // Free memory may differ between ranks, and with it the choice of `auto`.
  const auto agreed = static_cast<int>(ranks.all_reduce(std::int64_t{slices}, comm::Reduction::max));
  return std::make_shared<const comm::RankGrid>(ranks, agreed);
}

}  // namespace vaecf::train
