#include <vaecf/base/failure.hpp>
#include <vaecf/base/text.hpp>
#include <vaecf/checkpoint/run_folder.hpp>
#include <vaecf/comm/collective_checks.hpp>
#include <vaecf/models/kind.hpp>
#include <vaecf/run/item_slices.hpp>
#include <vaecf/run/validate.hpp>
#include <vaecf/training/item_slice_plan.hpp>

#include "run/memory.hpp"
#include "run/solve.hpp"

namespace vaecf::run {
namespace {

void validate_servers(const Run& run) {
  const comm::DistributedOptions& distributed = run.options.distributed;
  if (distributed.strategy != comm::StrategyKind::parameter_server) return;
  const auto has_servers = [](const models::Kind& kind) {
    return kind.trained() != nullptr && kind.trained()->has_parameter_server();
  };
  if (!has_servers(models::kind_of(run.options.model.type))) {
    std::vector<std::string> names;
    for (const models::Kind* kind : models::all_kinds())
      if (has_servers(*kind)) names.push_back(kind->name());
    throw InputError(format(
        "distributed.strategy: parameter_server trains {} only, but model.type is {}; set distributed.strategy to allreduce",
        join(names, " and "), vaecf::to_string(run.options.model.type)));
  }
  const int ranks = run.communicator.size();
  if (distributed.servers >= ranks) {
    throw InputError(format(
        "distributed.parameter_server.servers: {} leaves no worker among {} ranks; start {} ranks or more with mpirun, or set distributed.strategy to allreduce",
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
        "distributed.optimizer_state: sharded requires distributed.strategy: allreduce (a parameter server already stores the optimizer state only once); remove distributed.optimizer_state, or set distributed.strategy to allreduce");
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
  const int item_slices = choose_item_slices(run.options, workload_of(run.options, run.dataset, run));
  if (item_slices > 1 && distributed.optimizer == comm::OptimizerPlacement::sharded) {
    throw InputError(format(
        "distributed.optimizer_state: sharded is not possible with {} item slices, which divide weights, gradients and moments already; set it to replicated, or item_slices to 1",
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
  // Baselines are models that are solved.
  for (const models::Kind* kind : models::all_kinds())
    if (models::is_solved(kind->type()) || kind->type() == options.model.type)
      kind->validate(options.model, dataset);
  const bool has_batches = !models::is_solved(options.model.type);
  if (has_batches && options.train.last_batch == training::LastBatch::drop &&
      options.train.batch_size > rows) {
    throw InputError(format(
        "train.last_batch: drop leaves no batch, since train.batch_size {} exceeds the {} train users; "
        "keep the last batch or use smaller batches",
        options.train.batch_size, rows));
  }
}

/// Logs the memory of a rank. Throws InputError if the model configuration is invalid, or if the ranks of
/// this host, or this rank's GPU, do not have enough memory.
void plan_memory(const Run& run, int item_slices) {
  const models::Kind& kind = models::kind_of(run.options.model.type);
  models::Workload work = workload_of(run.options, run.dataset, run);
  work.item_slices = item_slices;
  const models::Cost cost = kind.cost(run.options.model, work);
  const int ranks = run.communicator.size();
  constexpr double mib = 1048576.0;
  constexpr double gib = 1073741824.0;
  if (item_slices > 1) {
    run.log.info("{} model-parallel groups of {} item slices with {} items each", ranks / item_slices,
                 item_slices, (run.dataset.items() + item_slices - 1) / item_slices);
  }
  if (item_slices > 1 || cost.host_bytes > gib) {
    run.log.info("memory: {}", cost.memory);
  } else {
    run.log.debug("memory: {}", cost.memory);
  }
  const std::string model = vaecf::to_string(run.options.model.type);
  const bool on_gpu = is_on_gpu(run);
  if (const double free = free_host_memory(run); on_gpu && cost.host_bytes > free) {
    throw BusyError(format(
        "{} needs {:.0f} MiB of host memory per rank, but {:.0f} MiB are free; use fewer ranks on this host",
        model, cost.host_bytes / mib, free / mib));
  }
  const double needed = needed_for_training(cost, run);
  const double free = memory_for_training(run);
  if (needed <= free) return;
  std::string fits =
      "use a smaller model, fewer ranks on this host, or more hosts with distributed.item_slices";
  for (const int s : training::divisors(ranks)) {
    work.item_slices = s;
    if (s <= item_slices || needed_for_training(kind.cost(run.options.model, work), run) > free) continue;
    fits = format("set distributed.item_slices to {} or more", s);
    break;
  }
  throw BusyError(format("{} needs {:.0f} MiB{} per rank, but {:.0f} MiB are free; {}", model, needed / mib,
                         on_gpu ? " of GPU memory" : "", free / mib, fits));
}

}  // namespace

io::DatasetFile open_dataset(const config::TrainingConfig& options, const comm::Communicator& ranks) {
  if (options.data.file.empty()) {
    throw InputError(
        "data.file is not set; set it to a dataset made by `vaecf_dist prepare` or `synthesize`");
  }
  io::DatasetFile dataset(options.data.file);
  if (ranks.local_rank() == 0) (void)dataset.fingerprint();
  return dataset;
}

void share_fingerprint(comm::Communicator& ranks, io::DatasetFile dataset) {
  const auto of_ranks = comm::all_gather_strings(ranks, ranks.local_rank() == 0 ? dataset.fingerprint() : "");
  for (std::size_t rank = 1; rank < of_ranks.size(); ++rank) {
    if (of_ranks[rank].empty() || of_ranks[rank] == of_ranks[0]) continue;
    throw comm::on_all_ranks(InputError(format(
        "the dataset {} differs between the hosts of rank 0 and rank {} (checksums {} and {}); check that all hosts have the same files",
        dataset.path(), rank, of_ranks[0], of_ranks[rank])));
  }
  dataset.set_fingerprint(of_ranks[0]);
}

void validate_ranks(const config::TrainingConfig& options, int ranks) {
  const std::int64_t wanted = options.distributed.item_slices;
  if (wanted == comm::automatic_item_slices) return;
  require_shards(options, ranks, wanted == comm::all_item_slices ? ranks : wanted);
}

int validate_run(const Run& run, bool trains, bool writes) {
  // The collectives come first, since the other checks may throw on some ranks only.
  comm::require_equal_on_all_ranks(run.communicator, run.configuration_text, "the configuration");
  share_fingerprint(run.communicator, run.dataset);
  const config::TrainingConfig& options = run.options;
  const bool solved = models::is_solved(options.model.type);
  validate_dataset(options, run.dataset);
  const int item_slices = validate_distributed(run);
  // Baselines that are listed are solved after the training, whatever they cost.
  for (const std::string& baseline : options.validation.baselines)
    if (const auto* kind = models::find_kind(baseline); kind != nullptr && kind->solved() != nullptr)
      require_memory_to_solve(*kind->solved(), run);
  if (trains && solved) validate_solve(run);
  if (trains && !solved) plan_memory(run, item_slices);
  if (writes && run.communicator.rank() == 0) checkpoint::prepare_folder(options.run_folder());
  return item_slices;
}

}  // namespace vaecf::run
