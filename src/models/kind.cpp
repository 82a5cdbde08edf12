#include <vaecf/base/enum_names.hpp>
#include <vaecf/base/error.hpp>
#include <vaecf/base/text.hpp>
#include <vaecf/keys/key.hpp>
#include <vaecf/models/kind.hpp>

#include <algorithm>
#include <array>
#include <cstddef>

namespace vaecf::models {

std::span<const std::string_view> shared_keys() {
  static constexpr std::array<std::string_view, 8> keys = {
      "model.hidden",        "model.latent",    "model.dropout",    "model.history_dropout",
      "model.user_features", "model.low_rank.", "train.annealing.", "train.weight_decay"};
  return keys;
}

const Kind& kind_of(ModelType type) {
  return *all_kinds()[static_cast<std::size_t>(type)];
}

const Kind* find_kind(std::string_view name) {
  const auto type = parse_enum<ModelType>(name);
  return type ? &kind_of(*type) : nullptr;
}

const TrainedKind& trained_kind_of(ModelType type) {
  const TrainedKind* kind = kind_of(type).trained();
  if (kind != nullptr) return *kind;
  throw InputError(format("model.type: {} is solved at once, not trained by steps", to_string(type)));
}

std::vector<keys::Key<ModelOptions>> Kind::keys() const {
  return {};
}

bool Kind::uses(std::string_view shared_key) const {
  return std::ranges::count(used_keys(), shared_key) > 0;
}

namespace {

/// Returns the weights of a rank's output tables, which a CPU copies in half precision.
double output_weights(std::vector<device::TensorSpec> tensors, std::int64_t items, int item_slices) {
  std::erase_if(tensors, [](const device::TensorSpec& tensor) {
    return tensor.kind != device::TensorKind::output_table && tensor.kind != device::TensorKind::item_table;
  });
  return parameters_of_rank(tensors, items, item_slices);
}

}  // namespace

double TrainedKind::operations(const ModelOptions& /*options*/,
                               const std::vector<device::TensorSpec>& tensors) const {
  return 6.0 * static_cast<double>(dense_weights(tensors));
}

Cost TrainedKind::cost(const ModelOptions& options, const Workload& work) const {
  const std::int64_t items = work.inputs.items;
  const auto of_model = tensors(options, work.inputs);
  const double parameters = parameters_of_rank(of_model, items, work.item_slices);
  const auto of_derived = derived_tensors(options, work.inputs);
  const double derived = parameters_of_rank(of_derived, items, work.item_slices);
  constexpr double mib = 1048576.0;
  // Bytes per parameter: fp32 weights and gradient, and two moments. A sharded optimizer has shards of
  // moments, master weights and summed gradient. bf16 communication needs a bf16 buffer.
  const int ranks = work.context.communicator.size();
  const bool sharded = work.distributed.optimizer == comm::OptimizerPlacement::sharded && ranks > 1;
  const double comm_buffer = work.distributed.comm_dtype == comm::CommDtype::bf16 && ranks > 1 ? 2.0 : 0.0;
  double each = (sharded ? 8.0 + 16.0 / ranks : 16.0) + comm_buffer;
  // A server has weights and gradient, and shards of master weights, moments and summed gradient.
  const comm::Roles roles(work.distributed, ranks);
  if (roles.servers > 0) each = 8.0 + 16.0 / roles.servers + comm_buffer;
  // In half precision, a GPU has a copy of all weights, and a CPU one of the output tables.
  const device::DeviceFacts device = work.context.device.facts();
  const bool half =
      device.precision == device::Precision::bf16 || device.precision == device::Precision::fp16;
  const double copy = half ? 2.0 : 0.0;
  const bool on_gpu = device.kind != device::DeviceKind::cpu;
  const double copied =
      output_weights(of_model, items, work.item_slices) + output_weights(of_derived, items, work.item_slices);

  const double model_parallel_groups = static_cast<double>(ranks) / work.item_slices;
  const double of_entry = work.weighted ? 8.0 : 4.0;
  constexpr double of_row = sizeof(std::int64_t) + sizeof(RowTotals);
  const double data = of_entry * static_cast<double>(work.train_entries) / ranks +
                      of_row * static_cast<double>(work.train_users) / model_parallel_groups;
  // On the CPU, exponentials of a part of the batch and scores of held-out users are stored for all items. A
  // step without an output layer has no exponentials.
  const bool has_outputs = std::ranges::any_of(of_model, [](const device::TensorSpec& tensor) {
    return tensor.kind == device::TensorKind::output_table;
  });
  const auto outputs = static_cast<double>(
      work.context.device.output_bytes({items, 0, work.item_slices}, has_outputs ? work.batch_users : 0));
  // With item slices, checkpoints are gathered in blocks: each rank has its own part and the parts of all
  // ranks, and rank 0 also the rows that it writes.
  const double block = 4.0 * static_cast<double>(min_block_rows * items);
  const double blocks = work.item_slices > 1 ? (2.0 + 1.0 / work.item_slices) * block : 0.0;
  constexpr double program = 64.0 * mib;
  const double others = (on_gpu ? 0.0 : 4.0 * derived + copy * copied) + blocks + program;

  Cost cost;
  cost.parameters = parameter_count(of_model);
  cost.host_bytes = (on_gpu ? 0.0 : each * parameters) + data + outputs + others;
  cost.device_bytes = (each + copy) * parameters + (4.0 + copy) * derived;
  // Weights and two moments.
  cost.checkpoint_bytes = 12.0 * static_cast<double>(cost.parameters);
  cost.operations = operations(options, of_model);
  // Rank 0 copies weights and moments for a checkpoint, unless ranks share the items.
  const std::string saved =
      work.item_slices == 1
          ? format(", and {:.0f} MiB on rank 0 for the copy of a checkpoint", 12.0 * parameters / mib)
          : "";
  cost.memory =
      on_gpu
          ? format(
                "about {:.0f} MiB of GPU memory per rank for {:.0f} parameters with gradient and two moments; on the host {:.0f} MiB per rank ({:.0f} for the train users, {:.0f} for other data){}",
                cost.device_bytes / mib, parameters, cost.host_bytes / mib, data / mib, others / mib, saved)
          : format(
                "about {:.0f} MiB per rank ({:.0f} for {:.0f} parameters with gradient and two moments, {:.0f} for outputs, {:.0f} for the train users, {:.0f} for other data){}",
                cost.host_bytes / mib, each * parameters / mib, parameters, outputs / mib, data / mib,
                others / mib, saved);
  return cost;
}

LoadedModel TrainedKind::load(WeightReader& reader, const ModelOptions& options, const InputDims& inputs,
                              const Context& context, std::int64_t max_users, bool explains) const {
  std::unique_ptr<TrainableModel> model = make(options, inputs, context.device, max_users, 1);
  reader.load_weights(*model);
  std::unique_ptr<Reasons> found = explains ? reasons(*model, reader, context) : nullptr;
  return {std::move(model), std::move(found)};
}

}  // namespace vaecf::models
