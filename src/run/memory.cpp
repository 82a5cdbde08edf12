#include "run/memory.hpp"

#include <vaecf/base/host.hpp>
#include <vaecf/checkpoint/checkpoint_reader.hpp>
#include <vaecf/training/item_slice_plan.hpp>

namespace vaecf::run {

double memory_of_parameters(const Context& context) {
  if (context.device.facts().kind != device::DeviceKind::cpu)
    return static_cast<double>(context.device.spare_bytes());
  return free_memory_bytes() / context.communicator.local_size();
}

void require_memory_to_solve(const models::SolvedKind& kind, const Run& run) {
  const double bytes = kind.host_bytes(run.options.model, run.dataset, run);
  const double missing = missing_memory(bytes);
  if (missing == 0.0) return;
  throw memory_error(format("{}: {} of {} items on {} ranks", run.dataset.path(), kind.name(),
                            run.dataset.items(), run.communicator.size()),
                     bytes, missing, kind.remedy(run.options.model));
}

MemoryPlan memory_plan(const Run& run, int item_slices) {
  const auto tensors =
      models::tensor_specs(run.options.model, models::input_dims(run.options.model, run.dataset));
  const training::ItemSliceProblem problem = training::item_slice_problem(
      run.options, tensors, run.dataset.items(), run.communicator, run.device.facts());
  const double parameters = problem.table_parameters / item_slices + problem.middle_parameters;
  const std::int64_t rows = run.dataset.rows("train");
  constexpr double mib = 1048576.0;
  // Bytes per parameter: fp32 weights and gradient, and two moments. A sharded optimizer has shards of
  // moments, master weights and summed gradient. bf16 communication needs a bf16 buffer.
  const int ranks = run.communicator.size();
  const bool sharded = run.options.distributed.optimizer == comm::OptimizerPlacement::sharded && ranks > 1;
  const double comm_buffer =
      run.options.distributed.comm_dtype == comm::CommDtype::bf16 && ranks > 1 ? 2.0 : 0.0;
  const comm::Roles roles(run.options.distributed, ranks);
  double bytes = (sharded ? 8.0 + 16.0 / ranks : 16.0) + comm_buffer;
  // A server has weights and gradient, and shards of master weights, moments and summed gradient.
  if (roles.servers > 0) bytes = 8.0 + 16.0 / roles.servers + comm_buffer;
  const double model_parallel_groups = static_cast<double>(ranks) / item_slices;
  const double of_entry = run.dataset.weighted() ? 8.0 : 4.0;
  constexpr double of_row = sizeof(std::int64_t) + sizeof(RowTotals);
  const double data = of_entry * static_cast<double>(run.dataset.entries("train")) / ranks +
                      of_row * static_cast<double>(rows) / model_parallel_groups;
  // Rank 0 copies weights and moments for a checkpoint, unless ranks share the items.
  const double copy = item_slices > 1 ? 0.0 : 12.0 * parameters;
  // On the CPU, exponentials of a part of the batch and scores of held-out users are stored for all items.
  double outputs = 0.0;
  if (models::trained_kind_of(run.options.model.type).computes_scores()) {
    outputs = static_cast<double>(
        run.device.output_bytes({run.dataset.items(), 0, item_slices}, run.options.train.batch_size));
  }
  // With item slices, checkpoints are gathered in blocks: each rank has its own part and the parts of all
  // ranks, and rank 0 also the rows that it writes.
  const double block = 4.0 * static_cast<double>(checkpoint::min_block_rows * run.dataset.items());
  const double blocks = item_slices > 1 ? (2.0 + 1.0 / item_slices) * block : 0.0;
  constexpr double program = 64.0 * mib;
  const double fixed = data + outputs + blocks + program;
  const double needed = bytes * parameters + fixed;
  const std::string text = format(
      "about {:.0f} MiB per rank ({:.0f} for {:.0f} parameters with gradient and two moments, {:.0f} for outputs, {:.0f} for the train users, {:.0f} for other data){}",
      needed / mib, bytes * parameters / mib, parameters, outputs / mib, data / mib, (blocks + program) / mib,
      copy > 0.0 ? format(", and {:.0f} MiB on rank 0 for the copy of a checkpoint", copy / mib) : "");
  return {needed, bytes * parameters, text};
}

std::string memory_text(const Run& run) {
  return memory_plan(run, run.item_slices()).text;
}

}  // namespace vaecf::run
