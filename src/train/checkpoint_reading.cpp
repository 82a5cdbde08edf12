#include "checkpoint_reading.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include "agreement.hpp"

#include <algorithm>
#include <span>

namespace vaecf::train {
namespace {

constexpr std::int64_t block_elements = 1 << 20;

void check_shapes(const std::string& path, const io::CheckpointFile& file,
                  const std::vector<backend::TensorSpec>& specs, const std::string& group) {
  const auto& infos = file.tensors();
  const std::string hint = format(
      "it holds a {} with hidden layers [{}] and latent {}; give the configuration it was trained with",
      file.attribute<std::string>("model_type"), file.attribute<std::string>("model_hidden"),
      file.attribute<std::int64_t>("model_latent"));
  for (const backend::TensorSpec& spec : specs) {
    const std::string name = format("{}/{}", group, spec.name);
    const auto info = std::find_if(infos.begin(), infos.end(), [&](const auto& i) { return i.name == name; });
    if (info == infos.end()) {
      throw InputError(format("{}: there is no /{}, which the configured model has; {}", path, name, hint));
    }
    if (info->rows != spec.rows || info->columns != spec.columns) {
      throw InputError(format("{}: /{} is ({}, {}) and the configured model's is ({}, {}); {}", path, name,
                              info->rows, info->columns, spec.rows, spec.columns, hint));
    }
  }
  const auto tensors = std::count_if(infos.begin(), infos.end(),
                                     [&](const auto& i) { return i.name.starts_with(group + "/"); });
  if (tensors != static_cast<std::int64_t>(specs.size())) {
    throw InputError(
        format("{}: it has {} tensors below /{} and the configured model {}; give the configuration it was "
               "trained with",
               path, tensors, group, specs.size()));
  }
}

/// Throws InputError unless the checkpoint reads the features that the model of `options` reads of the
/// dataset.
void require_same_features(const std::string& path, const RunState& checkpoint, const SessionOptions& options,
                           const io::DatasetFile& dataset) {
  const std::int64_t wanted = model_inputs(options, dataset).features;
  if (checkpoint.features == 0 && wanted == 0) return;
  if (checkpoint.features == 0) {
    throw InputError(
        format("{}: it was trained without features of users, and {} has {} of them; set model.features to "
               "off, or train anew",
               path, dataset.path(), wanted));
  }
  if (wanted == 0) {
    const bool off = dataset.features() > 0;
    throw InputError(format("{}: it was trained with {} features of users, and {}; {}", path,
                            checkpoint.features,
                            off ? "model.features is off" : format("{} has none", dataset.path()),
                            off ? "set it to auto" : "name the dataset it was trained on"));
  }
  const std::string hashing = feature_hashing_of(dataset);
  if (checkpoint.features == wanted && checkpoint.feature_hashing == hashing) return;
  throw InputError(
      format("{}: it was trained with {} features of users, made by\n{}\nand {} has {}, made by\n{}\nso that "
             "they do not mean the same; name the dataset it was trained on",
             path, checkpoint.features, checkpoint.feature_hashing, dataset.path(), wanted, hashing));
}

}  // namespace

model::Inputs model_inputs(const SessionOptions& options, const io::DatasetFile& dataset) {
  return {dataset.items(), options.model.features == model::FeaturesInput::off ? 0 : dataset.features()};
}

void require_same_dataset(const std::string& path, const RunState& checkpoint,
                          const io::DatasetFile& dataset) {
  if (checkpoint.items != dataset.items()) {
    throw InputError(
        format("{}: it was trained on {} items, and {} has {}; name the dataset it was trained on", path,
               checkpoint.items, dataset.path(), dataset.items()));
  }
  if (checkpoint.dataset_checksum != dataset.fingerprint()) {
    throw InputError(
        format("{}: it was trained on the dataset with checksum {}, and that of {} is {}; name the "
               "dataset it was trained on",
               path, checkpoint.dataset_checksum, dataset.path(), dataset.fingerprint()));
  }
}

CheckpointReader::CheckpointReader(const std::string& path, const Services& services)
    : path_(path), services_(services) {
  on_root(services.communicator, [&] {
    file_.emplace(path);
    state_ = state_of(path, *file_);
  });
  broadcast(state_, services.communicator);
}

void CheckpointReader::require_trained_on(const SessionOptions& options,
                                          const io::DatasetFile& dataset) const {
  require_same_features(path_, state_, options, dataset);
  require_same_dataset(path_, state_, dataset);
}

void CheckpointReader::read(const std::string& group, const std::vector<backend::TensorSpec>& specs,
                            const WriteRows& write) {
  on_root(services_.communicator, [&] { check_shapes(path_, *file_, specs, group); });
  std::vector<float> values;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const backend::TensorSpec& spec = specs[i];
    const std::int64_t block_rows = std::max<std::int64_t>(1, block_elements / spec.columns);
    for (std::int64_t begin = 0; begin < spec.rows; begin += block_rows) {
      const Range rows{begin, std::min(spec.rows, begin + block_rows)};
      values.resize(static_cast<std::size_t>(rows.size() * spec.columns));
      on_root(services_.communicator,
              [&] { file_->read_rows(format("{}/{}", group, spec.name), rows.begin, rows.end, values); });
      services_.communicator.broadcast(std::span<float>(values), 0);
      write(static_cast<int>(i), rows, values);
      services_.communicator.activity().progressed();
    }
  }
}

void CheckpointReader::load_weights(model::Model& model) {
  read("weights", model.tensors(), [&](int tensor, Range rows, std::span<const float> values) {
    model.write_rows(tensor, rows, values);
  });
  model.finish_writing();
}

void CheckpointReader::restore(Trainer& trainer) {
  const std::int64_t steps = trainer.steps_per_epoch();
  if (state_.step_in_epoch >= steps || state_.updates_done != state_.epoch * steps + state_.step_in_epoch) {
    throw InputError(
        format("{}: {} updates do not make {} epochs of {} steps and {} steps more; use another checkpoint",
               path_, state_.updates_done, state_.epoch, steps, state_.step_in_epoch));
  }
  // Before the first update all ranks compute with the weights as they were drawn.
  const bool updated = state_.updates_done > 0;
  const std::vector<backend::TensorSpec> specs = trainer.model().tensors();
  for (const auto& [part, group] : tensor_groups) {
    services_.engine.write(part, updated,
                           [&, name = group](const WriteRows& write) { read(name, specs, write); });
  }
  trainer.go_on(
      state_.updates_done, state_.users_seen,
      {static_cast<float>(state_.loss_scale), static_cast<std::int32_t>(state_.loss_scale_good_steps)});
}

}  // namespace vaecf::train
