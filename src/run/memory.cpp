#include "run/memory.hpp"

#include <vaecf/base/host.hpp>

#include <limits>

namespace vaecf::run {

bool is_on_gpu(const Context& context) {
  return context.device.facts().kind != device::DeviceKind::cpu;
}

models::Workload workload_of(const config::TrainingConfig& options, const io::DatasetFile& dataset,
                             const Context& context) {
  return {.context = context,
          .inputs = models::input_dims(options.model, dataset),
          .train_users = dataset.rows("train"),
          .train_entries = dataset.entries("train"),
          .feature_entries = dataset.entries("items/features"),
          .weighted = dataset.weighted(),
          .batch_users = options.train.batch_size,
          .distributed = options.distributed};
}

models::Cost cost_of(const models::Kind& kind, const Run& run) {
  models::Workload work = workload_of(run.options, run.dataset, run);
  work.read_train = [&] { return models::read_interactions(run, run.dataset); };
  work.item_slices = run.item_slices();
  return kind.cost(run.options.model, work);
}

double free_host_memory(const Context& context) {
  const double free = free_memory_bytes();
  return free > 0.0 ? free / context.communicator.local_size() : std::numeric_limits<double>::infinity();
}

double memory_for_training(const Context& context) {
  return is_on_gpu(context) ? static_cast<double>(context.device.spare_bytes()) : free_host_memory(context);
}

double needed_for_training(const models::Cost& cost, const Context& context) {
  return is_on_gpu(context) ? cost.device_bytes : cost.host_bytes;
}

void require_memory_to_solve(const models::SolvedKind& kind, const Run& run) {
  const double bytes = cost_of(kind, run).host_bytes * run.communicator.local_size();
  const double missing = missing_memory(bytes);
  if (missing == 0.0) return;
  throw memory_error(format("{}: {} of {} items on {} ranks", run.dataset.path(), kind.name(),
                            run.dataset.items(), run.communicator.size()),
                     bytes, missing, kind.remedy(run.options.model));
}

}  // namespace vaecf::run
