#include <vaecf/checkpoint/checkpoint_reader.hpp>
#include <vaecf/checkpoint/training_state.hpp>
#include <vaecf/models/kind.hpp>

#include <filesystem>
#include <span>

#include "checkpoint/tensor_names.hpp"
#include "checkpoint/tensor_rows.hpp"
#include "checkpoint/trained_on.hpp"

namespace vaecf::checkpoint {
void check_shapes(const std::string& path, const io::CheckpointFile& file,
                  const std::vector<device::TensorSpec>& specs, const std::string& prefix) {
  const auto& infos = file.tensors();
  const auto type = file.attribute<std::string>("model_type");
  const models::Kind* kind = models::find_kind(type);
  const std::string layers =
      kind != nullptr && !kind->uses("model.hidden")
          ? ""
          : format(" with hidden layers [{}] and latent {}", file.attribute<std::string>("model_hidden"),
                   file.attribute<std::int64_t>("model_latent"));
  const auto config = std::filesystem::path(path).parent_path().parent_path() / "config.yaml";
  std::error_code error;
  const std::string hint =
      format("the checkpoint contains a model of type {}{}; use the configuration of its run{}", type, layers,
             std::filesystem::exists(config, error) ? ", " + config.string() : "");
  for (const device::TensorSpec& spec : specs) {
    const std::string name = format("{}/{}", prefix, spec.name);
    const auto* info = file.find_tensor(name);
    if (info == nullptr)
      throw InputError(format("{}: /{} is missing, which the configured model needs; {}", path, name, hint));
    if (info->rows != spec.logical_rows() || info->columns != spec.logical_columns()) {
      throw InputError(format("{}: /{} must have shape ({}, {}), got ({}, {}); {}", path, name,
                              spec.logical_rows(), spec.logical_columns(), info->rows, info->columns, hint));
    }
  }
  const auto tensors = std::count_if(infos.begin(), infos.end(),
                                     [&](const auto& i) { return i.name.starts_with(prefix + "/"); });
  if (tensors != static_cast<std::int64_t>(specs.size())) {
    throw InputError(format("{}: /{} must contain {} tensors, got {}; use the configuration of its run", path,
                            prefix, specs.size(), tensors));
  }
}

CheckpointReader::CheckpointReader(const std::string& path, const Context& context)
    : path_(path), context_(context) {
  comm::run_on_root(context.communicator, [&] {
    file_.emplace(path);
    state_ = read_training_state(path, *file_);
  });
  broadcast(state_, context.communicator);
}

CheckpointReader::CheckpointReader(const io::CheckpointFile& file, const Context& context)
    : path_(file.path()), context_(context), file_(file), state_(read_training_state(path_, file)) {}

void CheckpointReader::read(const std::string& prefix, const std::vector<device::TensorSpec>& specs,
                            const training::WriteRows& write, std::int64_t first) {
  comm::run_on_root(context_.communicator, [&] { check_shapes(path_, *file_, specs, prefix); });
  std::vector<float> values;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const device::TensorSpec& spec = specs[i];
    for (std::int64_t begin = 0; begin < spec.logical_rows(); begin += block_rows(spec)) {
      const Range rows{begin, std::min(spec.logical_rows(), begin + block_rows(spec))};
      values.resize(rows.size() * spec.logical_columns());
      comm::run_on_root(context_.communicator, [&] {
        file_->read_rows(format("{}/{}", prefix, spec.name), rows.begin, rows.end, values);
      });
      context_.communicator.broadcast(std::span<float>(values), 0);
      const StoredRows mine = stored_rows(spec, rows, values);
      write(static_cast<int>(first) + static_cast<int>(i), mine.rows, mine.values);
      context_.communicator.activity().note_progress();
    }
  }
}

void CheckpointReader::load_weights(models::Model& model) {
  read("weights", model.tensors(), [&](int tensor, Range rows, std::span<const float> values) {
    model.write_rows(tensor, rows, values);
  });
  model.finish_writing();
}

void CheckpointReader::restore(training::Trainer& trainer) {
  const std::int64_t steps = trainer.steps_per_epoch();
  if (state_.step_in_epoch >= steps || state_.updates_done != state_.epoch * steps + state_.step_in_epoch) {
    throw InputError(
        format("{}: {} updates do not match {} epochs of {} steps plus {} steps; use another checkpoint",
               path_, state_.updates_done, state_.epoch, steps, state_.step_in_epoch));
  }
  // Before the first update, the initial weights are not rounded to bf16.
  const bool round_weights = state_.updates_done > 0;
  const std::vector<device::TensorSpec> specs = trainer.model().tensors();
  const Range prior = trainer.facts().prior_tensors;
  for (const auto& [part, prefix] : tensor_prefixes) {
    const Range tensors = tensors_of(part, state_, prior, specs.size());
    if (tensors.size() == 0) continue;
    const std::vector<device::TensorSpec> stored(specs.begin() + tensors.begin, specs.begin() + tensors.end);
    trainer.write_state(part, round_weights, [&, name = prefix](const training::WriteRows& write) {
      read(name, stored, write, tensors.begin);
    });
  }
  trainer.restore_annealing(state_.annealing_epochs);
  trainer.restore_progress(
      state_.updates_done, state_.users_seen,
      {static_cast<float>(state_.loss_scale), static_cast<std::int32_t>(state_.loss_scale_good_steps)});
}

void CheckpointReader::require_trained_on(const models::ModelOptions& options,
                                          const io::DatasetFile& dataset) const {
  require_same_features(path_, state_, options, dataset);
  require_same_dataset(path_, state_, dataset);
}

}  // namespace vaecf::checkpoint
