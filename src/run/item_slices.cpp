#include <vaecf/models/kind.hpp>
#include <vaecf/run/item_slices.hpp>
#include <vaecf/training/item_slice_plan.hpp>

#include "run/memory.hpp"

namespace vaecf::run {
namespace {

/// Returns "1, 2, 4 or 8".
std::string alternatives(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    text += format("{}{}", i == 0 ? "" : i + 1 == numbers.size() ? " or " : ", ", numbers[i]);
  return text;
}

/// Throws InputError if the model or the strategy cannot divide the items, or if `item_slices` does not
/// divide the ranks or leaves item slices without items.
void require_divisible(const config::TrainingConfig& options, std::int64_t item_slices, std::int64_t items,
                       int ranks) {
  if (models::is_solved(options.model.type)) {
    throw InputError(format(
        "distributed.item_slices: {} requires a model that is trained in steps, but model.type is {}, whose columns are divided over the ranks anyway; set item_slices to 1",
        item_slices, vaecf::to_string(options.model.type)));
  }
  if (options.distributed.strategy == comm::StrategyKind::parameter_server) {
    throw InputError(format(
        "distributed.item_slices: {} is not possible with distributed.strategy: parameter_server, whose servers store all items; set item_slices to 1, or strategy to allreduce",
        item_slices));
  }
  if (item_slices > ranks || ranks % item_slices != 0) {
    const std::int64_t fewer = ranks / item_slices * item_slices;
    const std::string start = fewer > 0 ? format("start {} or {} ranks", fewer, fewer + item_slices)
                                        : format("start {} ranks", item_slices);
    throw InputError(format("distributed.item_slices: {} does not divide {} ranks; give {}, or {}",
                            item_slices, ranks, alternatives(training::divisors(ranks)), start));
  }
  if (item_slices > items) {
    throw InputError(
        format("distributed.item_slices: {} item slices of {} items leave some without any; give at most {}",
               item_slices, items, items));
  }
}

}  // namespace

int choose_item_slices(const config::TrainingConfig& options, models::Workload work) {
  const models::InputDims& inputs = work.inputs;
  const Context& context = work.context;
  const std::int64_t wanted = options.distributed.item_slices;
  const int ranks = context.communicator.size();
  if (wanted == 1) return 1;
  const bool divisible = !models::is_solved(options.model.type) &&
                         options.distributed.strategy == comm::StrategyKind::allreduce &&
                         options.distributed.optimizer == comm::OptimizerPlacement::replicated;
  if (wanted == comm::automatic_item_slices) {
    if (!divisible || ranks == 1) return 1;
    const models::TrainedKind& kind = models::trained_kind_of(options.model.type);
    const device::DeviceFacts device = context.device.facts();
    training::ItemSliceProblem problem =
        training::item_slice_problem(options.train.batch_size, kind.tensors(options.model, inputs),
                                     inputs.items, context.communicator, device);
    if (device.kind != device::DeviceKind::cpu) problem.memory_rate_ratio_within = 8.0;  // NVLink
    const auto needed = [&](int item_slices) {
      work.item_slices = item_slices;
      return needed_for_training(kind.cost(options.model, work), context);
    };
    const auto [item_slices, reason] =
        training::plan_item_slices(problem, needed, memory_for_training(context));
    context.log.info("distributed.item_slices: auto: {}, since {}", item_slices, reason);
    return item_slices;
  }
  if (wanted == comm::all_item_slices && ranks == 1) return 1;
  const std::int64_t item_slices = wanted == comm::all_item_slices ? ranks : wanted;
  require_divisible(options, item_slices, inputs.items, ranks);
  constexpr std::int64_t few_items = 256;
  if (inputs.items / item_slices < few_items) {
    context.log.warn(
        "distributed.item_slices: {} item slices of {} items have fewer than {} each, and much of the work is padding; fewer item slices are faster",
        item_slices, inputs.items, few_items);
  }
  const int local = context.communicator.local_size();
  if (local < ranks && (local % item_slices != 0 || item_slices > local)) {
    context.log.warn(
        "distributed.item_slices: the {} ranks of a model-parallel group are on several hosts, which exchange activations in every step; if possible, start a multiple of {} ranks on each host, as with mpirun --map-by ppr:{}:node",
        item_slices, item_slices, item_slices);
  }
  return static_cast<int>(item_slices);
}

std::shared_ptr<const comm::RankGrid> divide_ranks(comm::Communicator& ranks, int item_slices) {
  // Free memory may differ between ranks, and with it the choice of `auto`.
  const auto agreed = static_cast<int>(ranks.all_reduce(std::int64_t{item_slices}, comm::Reduction::max));
  return std::make_shared<const comm::RankGrid>(ranks, agreed);
}

}  // namespace vaecf::run
