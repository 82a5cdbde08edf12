#include <vaecf/base/host.hpp>
#include <vaecf/checkpoint/checkpoint_reader.hpp>
#include <vaecf/checkpoint/run_folder.hpp>
#include <vaecf/data/shards.hpp>
#include <vaecf/models/model.hpp>
#include <vaecf/models/network_shape.hpp>
#include <vaecf/run/validate.hpp>
#include <vaecf/training/item_slice_plan.hpp>

#include "run/memory.hpp"
#include "run/selection.hpp"
#include "run/solve.hpp"

namespace vaecf::run {
namespace {

void validate_servers(const Run& run) {
  const comm::DistributedOptions& distributed = run.options.distributed;
  if (distributed.strategy != comm::StrategyKind::parameter_server) return;
  if (!models::facts_of(run.options.model.type).parameter_server) {
    throw InputError(format(
        "distributed.strategy: parameter_server trains mult_vae and mult_dae only, but model.type is {}; set distributed.strategy to allreduce",
        vaecf::to_string(run.options.model.type)));
  }
  const int ranks = run.communicator.size();
  if (distributed.servers >= ranks) {
    throw InputError(format(
        "distributed.servers: {} leaves no worker among {} ranks; start {} ranks or more with mpirun, or set distributed.strategy to allreduce",
        distributed.servers, ranks, distributed.servers + 1));
  }
  const device::DeviceFacts device = run.device.facts();
  if (device.kind != device::DeviceKind::cpu) {
    throw InputError(format(
        "distributed.strategy: parameter_server requires device: cpu, but this rank computes on {} in {}; set device to cpu, or distributed.strategy to allreduce",
        vaecf::to_string(device.kind), vaecf::to_string(device.precision)));
  }
  if (distributed.optimizer != comm::OptimizerPlacement::replicated) {
    throw InputError(
        "distributed.optimizer: sharded requires distributed.strategy: allreduce (a parameter server already stores the optimizer state only once); remove distributed.optimizer, or set distributed.strategy to allreduce");
  }
}

/// Throws InputError if more ranks divide the users than there are virtual shards.
void require_shards(const config::TrainingConfig& options, int ranks, std::int64_t item_slices) {
  const auto parts = item_slices > 1 ? static_cast<int>(ranks / item_slices)
                                     : comm::Roles(options.distributed, ranks).workers;
  if (parts <= options.data.virtual_shards || models::is_solved(options.model.type)) return;
  throw InputError(format(
      "the number of {} must be at most data.virtual_shards ({}), got {}; start fewer ranks, or raise data.virtual_shards",
      item_slices > 1 ? "model-parallel groups" : "workers", options.data.virtual_shards, parts));
}

int validate_distributed(const Run& run) {
  const comm::DistributedOptions& distributed = run.options.distributed;
  validate_servers(run);
  const int item_slices =
      choose_item_slices(run.options, models::input_dims(run.options.model, run.dataset), run);
  if (item_slices > 1 && distributed.optimizer == comm::OptimizerPlacement::sharded) {
    throw InputError(format(
        "distributed.optimizer: sharded is not possible with {} item slices, which divide weights, gradients and moments already; set it to replicated, or item_slices to 1",
        item_slices));
  }
  require_shards(run.options, run.communicator.size(), item_slices);
  return item_slices;
}

void validate_dataset(const config::TrainingConfig& options, const io::DatasetFile& dataset) {
  const std::int64_t rows = dataset.rows("train");
  if (rows < 1 || dataset.items() < 1) {
    throw InputError(
        format("{}: nothing to train on ({} train users, {} items); "
               "prepare it again with weaker filters or fewer held-out users",
               options.data.file, rows, dataset.items()));
  }
  if (options.model.ease.neighbors >= dataset.items()) {
    throw InputError(
        format("model.ease.neighbors: must be below the number of items ({}), got {}; use 0 for all items",
               dataset.items(), options.model.ease.neighbors));
  }
  const std::vector<double>& feature_weights = options.model.ease.feature_weight;
  if (dataset.item_features() == 0 && std::ranges::max(feature_weights) > 0.0) {
    throw InputError(format(
        "model.ease.feature_weight: {} has no features of items; set data.prepare.item_features and prepare it again, or set the key to 0",
        options.data.file));
  }
  if (dataset.weighted() && models::facts_of(options.model.type).plain &&
      options.model.autoencoder.loss == device::Loss::squared) {
    throw InputError(format(
        "model.type: {} with model.autoencoder.loss: squared predicts probabilities between 0 and 1, but {} has weights of interactions, which may be larger; set model.autoencoder.loss to multinomial, choose another model, or prepare the dataset with data.prepare.weights: none",
        vaecf::to_string(options.model.type), options.data.file));
  }
  const bool has_batches = !models::is_solved(options.model.type);
  if (has_batches && options.train.last_batch == config::LastBatch::drop && options.train.batch_size > rows) {
    throw InputError(format(
        "train.last_batch: drop leaves no batch, since train.batch_size {} exceeds the {} train users; "
        "keep the last batch or use smaller batches",
        options.train.batch_size, rows));
  }
}

/// The memory of a rank that is trained by steps.
struct MemoryPlan {
  training::ItemSliceProblem problem;
  double fixed = 0.0;   ///< bytes that do not depend on the number of parameters
  double needed = 0.0;  ///< bytes of all
  std::string text = {};
};

/// Throws InputError if the model configuration is invalid.
MemoryPlan memory_plan(const Run& run, int item_slices) {
  const auto tensors =
      models::tensor_specs(run.options.model, models::input_dims(run.options.model, run.dataset));
  const training::ItemSliceProblem problem =
      training::item_slice_problem(run.options, tensors, run.dataset.items(), run.communicator);
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
  if (!models::facts_of(run.options.model.type).item_vectors) {
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
  return {problem, fixed, needed, text};
}

/// Logs the memory of a rank. Throws InputError if the model configuration is invalid, or if the ranks of
/// this host do not have enough memory.
void plan_memory(const Run& run, int item_slices) {
  const auto [problem, fixed, needed, text] = memory_plan(run, item_slices);
  const int ranks = run.communicator.size();
  constexpr double mib = 1048576.0;
  constexpr double gib = 1073741824.0;
  if (item_slices > 1) {
    run.log.info("{} model-parallel groups of {} item slices with {} items each", ranks / item_slices,
                 item_slices, (run.dataset.items() + item_slices - 1) / item_slices);
  }
  if (item_slices > 1 || needed > gib) {
    run.log.info("memory: {}", text);
  } else {
    run.log.debug("memory: {}", text);
  }
  if (run.device.facts().kind != device::DeviceKind::cpu) return;  // a GPU reports what it lacks
  const double free = free_memory_bytes() / run.communicator.local_size();
  if (needed <= free) return;
  std::string fits =
      "use a smaller model, fewer ranks on this host, or more hosts with distributed.item_slices";
  for (const int s : training::divisors(ranks)) {
    if (s <= item_slices || training::item_slice_memory(problem, s) + fixed > free) continue;
    fits = format("set distributed.item_slices to {} or more", s);
    break;
  }
  throw InputError(format("{} needs {:.0f} MiB per rank, but {:.0f} MiB are free; {}",
                          vaecf::to_string(run.options.model.type), needed / mib, free / mib, fits));
}

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

std::string memory_text(const Run& run) {
  return memory_plan(run, run.item_slices()).text;
}

bool validates(const Run& run) {
  return run.options.validation.every > 0 && run.dataset.entries("validation/held_out") > 0;
}

std::string selection_of(const Run& run) {
  return validates(run) ? run.options.validation.select : "last";
}

io::DatasetFile open_dataset(const config::TrainingConfig& options) {
  if (options.data.file.empty()) {
    throw InputError(
        "data.file is not set; set it to a dataset made by `vaecf_dist prepare` or `synthesize`");
  }
  return io::DatasetFile(options.data.file);
}

void validate_ranks(const config::TrainingConfig& options, int ranks) {
  const std::int64_t wanted = options.distributed.item_slices;
  if (wanted == comm::automatic_item_slices) return;
  require_shards(options, ranks, wanted == comm::all_item_slices ? ranks : wanted);
}

int validate_run(const Run& run, bool trains, bool writes) {
  // The only collective comes first, since the other checks may throw on some ranks only.
  comm::require_equal_on_all_ranks(run.communicator, run.configuration_text, "the configuration");
  const config::TrainingConfig& options = run.options;
  const bool solved = models::is_solved(options.model.type);
  validate_dataset(options, run.dataset);
  const int item_slices = validate_distributed(run);
  // Baselines that are listed are solved after the training, whatever they cost.
  for (const std::string& baseline : options.validation.baselines)
    if (const auto* facts = models::find_model(baseline); facts != nullptr && facts->solved)
      require_memory_to_solve(facts->type, run);
  if (trains && solved) validate_solve(run);
  if (trains && !solved) plan_memory(run, item_slices);
  if (writes && run.communicator.rank() == 0) checkpoint::prepare_run_folder(options);
  return item_slices;
}

int choose_item_slices(const config::TrainingConfig& options, const models::InputDims& inputs,
                       const Context& context) {
  const std::int64_t wanted = options.distributed.item_slices;
  const int ranks = context.communicator.size();
  if (wanted == 1) return 1;
  const bool divisible =
      !models::is_solved(options.model.type) && options.distributed.strategy == comm::StrategyKind::allreduce;
  if (wanted == comm::automatic_item_slices) {
    if (!divisible || ranks == 1) return 1;
    const auto tensors = models::tensor_specs(options.model, inputs);
    training::ItemSliceProblem problem =
        training::item_slice_problem(options, tensors, inputs.items, context.communicator);
    const bool gpu = context.device.facts().kind != device::DeviceKind::cpu;
    if (gpu) problem.memory_rate_ratio_within = 8.0;  // NVLink
    // The memory of a GPU is known to its device only, which reports a lack of it.
    if (!gpu) problem.memory_bytes = free_memory_bytes() / context.communicator.local_size();
    const auto [item_slices, reason] = training::plan_item_slices(problem);
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
