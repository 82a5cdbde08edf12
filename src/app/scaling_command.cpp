#include <vaecf/base/format.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/model/network_shape.hpp>
#include <vaecf/scaling/report.hpp>
#include <vaecf/train/train.hpp>

#include "app/commands.hpp"
#include "app/progress.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>

namespace vaecf::app {
namespace {

/// Writes the report on a folder of runs as JSON, CSV and HTML, and prints it as a table.
void report_on(const CommandLine& line) {
  const ScalingArguments& arguments = line.scaling;
  if (!std::filesystem::is_directory(arguments.path)) {
    throw InputError(format(
        "{}: not a folder; pass the folder written by launch/scaling, or --predict MACHINE.yaml to predict for a configuration",
        arguments.path));
  }
  const scaling::Report report = scaling::make_report(scaling::read_runs(arguments.path),
                                                      arguments.batch_size, arguments.users_per_rank);
  const std::string name = arguments.path + "/scaling";
  io::write_file_atomically(name + ".json", scaling::to_json(report));
  io::write_file_atomically(name + ".csv", scaling::to_csv(report));
  io::write_file_atomically(name + ".html", scaling::to_html(report));
  print(scaling::to_table(report));
  if (line.verbosity != Verbosity::quiet) print(format("wrote {}.{{json,csv,html}}\n", name));
}

/// Numbers of items and features, and mean training interactions per user.
struct Sizes {
  model::InputDims inputs;
  double interactions_per_user = 0.0;
};

/// Returns the sizes from the command line if it has both, else from the dataset. Throws InputError if the
/// dataset does not exist, or if a user would have more items than there are.
Sizes sizes_of(const ScalingArguments& arguments, const config::Config& config) {
  if (arguments.items > 0 && arguments.interactions_per_user > 0.0) {
    if (arguments.interactions_per_user > static_cast<double>(arguments.items)) {
      throw InputError(format(
          "--interactions-per-user {:g} exceeds the number of items ({}); a user can have each item at most once",
          arguments.interactions_per_user, arguments.items));
    }
    return {{arguments.items}, arguments.interactions_per_user};
  }
  const std::string& file = config.session.data.file;
  if (!std::filesystem::exists(file)) {
    throw InputError(format(
        "{}: data.file {} does not exist; pass --items and --interactions-per-user, or prepare it first (vaecf_dist prepare)",
        arguments.path, file));
  }
  const io::DatasetFile dataset(file);
  const auto users = static_cast<double>(std::max<std::int64_t>(1, dataset.rows("train")));
  return {train::model_input_dims(config.session, dataset),
          static_cast<double>(dataset.entries("train")) / users};
}

/// Returns the number of weights and the memory traffic of a training step.
scaling::Workload workload_of(const config::Config& config, const Sizes& sizes) {
  scaling::Workload workload;
  const auto shape = model::network_shape(config.session.model, sizes.inputs);
  for (const device::TensorSpec& tensor : model::tensor_specs(shape)) {
    const double weights = static_cast<double>(tensor.rows) * static_cast<double>(tensor.columns);
    workload.parameters += weights;
    const bool dense =
        tensor.kind == device::TensorKind::matrix || tensor.kind == device::TensorKind::output_table;
    if (dense) workload.dense_weights += weights;
  }
  const bool half = config.backend.precision != device::Precision::fp32 &&
                    config.backend.precision != device::Precision::tf32 &&
                    config.backend.precision != device::Precision::bf16x3;
  const double width = half ? 2.0 : 4.0;
  workload.half_copy_bytes = half ? 2.0 : 0.0;
  // The gradient of the logits is written once and read twice. One row of the input table is gathered per
  // item that dropout keeps, and one is added in the backward pass.
  const double kept = (1.0 - config.session.model.dropout) * sizes.interactions_per_user;
  workload.bytes_per_user = 3.0 * width * static_cast<double>(sizes.inputs.items) +
                            2.0 * width * kept * static_cast<double>(shape.encoder.front().outputs);
  return workload;
}

/// Prints the predicted speed of the configuration on a machine. Throws InputError if an input is not valid.
void predict(const CommandLine& line) {
  const ScalingArguments& arguments = line.scaling;
  const config::Config config = config::load(arguments.path, line.overrides);
  Console console = make_console(line.verbosity);
  for (const std::string& note : config.notes) console.log.warn("{}", note);
  const scaling::Machine machine = config::load(arguments.machine).machine;
  const bool several = machine.within_host.bandwidth > 0.0 && machine.between_hosts.bandwidth > 0.0;
  if (machine.name.empty() || machine.flops <= 0.0 || machine.memory_rate <= 0.0 || !several) {
    throw InputError(format(
        "{}: must set machine.name, machine.flops, machine.memory_rate, machine.within_host.bandwidth and machine.between_hosts.bandwidth; "
        "see configs/machines/",
        arguments.machine));
  }
  if (arguments.ranks.empty()) throw InputError("--predict: requires --ranks, e.g. --ranks 8,64,512");
  for (const int ranks : arguments.ranks) {
    constexpr int max_ranks = 1'000'000;
    if (ranks < 1 || ranks > max_ranks) {
      throw InputError(format("--ranks: must be between 1 and {}, got {}", max_ranks, ranks));
    }
  }
  if (config.session.model.type != "mult_vae" && config.session.model.type != "mult_dae") {
    throw InputError(
        format("model.type: {} cannot be predicted, only mult_vae and mult_dae; measure it (launch/scaling)",
               config.session.model.type));
  }
  const auto& distributed = config.session.distributed;
  if (distributed.strategy != comm::Strategy::allreduce) {
    throw InputError(format(
        "distributed.strategy: {} cannot be predicted, only allreduce; measure it (launch/scaling --variants ps)",
        to_string(distributed.strategy)));
  }
  const std::int64_t shards = config.session.data.virtual_shards;
  const int most = *std::max_element(arguments.ranks.begin(), arguments.ranks.end());
  const scaling::ParallelConfig parallel = {
      .ranks = 1,
      .users = static_cast<double>(config.session.train.batch_size),
      .sharded = distributed.optimizer == comm::OptimizerPlacement::sharded,
      .bf16_comm = distributed.comm_dtype == comm::CommDtype::bf16,
      .overlap = distributed.overlap != Toggle::off,
      .bucket_bytes = 1048576.0 * distributed.bucket_mib,
      .virtual_shards = static_cast<int>(std::min<std::int64_t>(shards, std::numeric_limits<int>::max()))};
  print(scaling::predict_table(machine, workload_of(config, sizes_of(arguments, config)), parallel,
                               arguments.ranks));
  if (most > shards) {
    print(format("  {} ranks require data.virtual_shards of at least {}, preferably a multiple; it is {}\n",
                 most, most, shards));
  }
}

}  // namespace

void run_scaling(const CommandLine& line) {
  if (line.scaling.machine.empty()) {
    report_on(line);
  } else {
    predict(line);
  }
}

}  // namespace vaecf::app
