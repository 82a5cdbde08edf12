#include "checkpoint_reading.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/checkpoint.hpp>

#include "agreement.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace vaecf::train {
namespace {

constexpr std::int64_t block_elements = 1 << 20;

void check_shapes(const std::string& path, const io::CheckpointFile& file,
                  const backend::ParameterLayout& layout, const std::string& group) {
  const auto& infos = file.tensors();
  const std::string hint = format(
      "it holds a {} with hidden layers [{}] and latent {}; give the configuration it was trained with",
      file.attribute<std::string>("model_type"), file.attribute<std::string>("model_hidden"),
      file.attribute<std::int64_t>("model_latent"));
  for (const backend::TensorLayout& tensor : layout.tensors) {
    const std::string name = format("{}/{}", group, tensor.spec.name);
    const auto info = std::find_if(infos.begin(), infos.end(), [&](const auto& i) { return i.name == name; });
    if (info == infos.end()) {
      throw InputError(format("{}: there is no /{}, which the configured model has; {}", path, name, hint));
    }
    if (info->rows != tensor.spec.rows || info->columns != tensor.spec.columns) {
      throw InputError(format("{}: /{} is ({}, {}) and the configured model's is ({}, {}); {}", path, name,
                              info->rows, info->columns, tensor.spec.rows, tensor.spec.columns, hint));
    }
  }
  const auto tensors = std::count_if(infos.begin(), infos.end(),
                                     [&](const auto& i) { return i.name.starts_with(group + "/"); });
  if (tensors != static_cast<std::int64_t>(layout.tensors.size())) {
    throw InputError(
        format("{}: it has {} tensors below /{} and the configured model {}; give the configuration it was "
               "trained with",
               path, tensors, group, layout.tensors.size()));
  }
}

/// Rank 0's file, read for all ranks.
class SharedFile {
 public:
  SharedFile(const std::string& path, const Services& services, const backend::ParameterLayout& layout)
      : path_(path), services_(services), layout_(layout) {
    on_root(services.communicator, [&] {
      file_.emplace(path);
      require_format(path, *file_);
    });
  }

  /// On rank 0.
  const io::CheckpointFile& file() const { return *file_; }

  /// Fills `flat` with the tensors below `group`. Collective.
  void fill(const std::string& group, backend::FloatBuffer& flat) {
    on_root(services_.communicator, [&] { check_shapes(path_, *file_, layout_, group); });
    for (std::size_t i = 0; i < layout_.tensors.size(); ++i) fill_tensor(group, static_cast<int>(i), flat);
  }

 private:
  void fill_tensor(const std::string& group, int tensor, backend::FloatBuffer& flat) {
    const backend::TensorSpec& spec = layout_.tensors[static_cast<std::size_t>(tensor)].spec;
    const std::int64_t block_rows = std::max<std::int64_t>(1, block_elements / spec.columns);
    for (std::int64_t begin = 0; begin < spec.rows; begin += block_rows) {
      const Range rows{begin, std::min(spec.rows, begin + block_rows)};
      values_.resize(static_cast<std::size_t>(rows.size() * spec.columns));
      on_root(services_.communicator,
              [&] { file_->read_rows(format("{}/{}", group, spec.name), rows.begin, rows.end, values_); });
      services_.communicator.broadcast(std::span<float>(values_), 0);
      services_.backend.import_rows(layout_, tensor, rows, values_, flat);
      services_.communicator.activity().progressed();
    }
  }

  std::string path_;
  Services services_;
  const backend::ParameterLayout& layout_;
  std::optional<io::CheckpointFile> file_;
  std::vector<float> values_;
};

}  // namespace

LoadedCheckpoint read_checkpoint_state(const std::string& path, const Services& services) {
  LoadedCheckpoint state;
  std::array<std::int64_t, 4> numbers = {};
  on_root(services.communicator, [&] {
    const io::CheckpointFile file(path);
    require_format(path, file);
    state.fingerprint = file.attribute<std::string>("dataset_checksum");
    numbers = {file.attribute<std::int64_t>("epoch"), file.attribute<std::int64_t>("items"), 0,
               std::bit_cast<std::int64_t>(file.checksum())};
    if (file.attributes().contains("features")) {
      numbers[2] = file.attribute<std::int64_t>("features");
      state.feature_hashing = file.attribute<std::string>("feature_hashing");
    }
  });
  services.communicator.broadcast(std::span<std::int64_t>(numbers), 0);
  state.epoch = numbers[0];
  state.items = numbers[1];
  state.features = numbers[2];
  state.checksum = std::bit_cast<std::uint64_t>(numbers[3]);
  state.feature_hashing = services.communicator.broadcast_text(std::move(state.feature_hashing), 0);
  state.fingerprint = services.communicator.broadcast_text(std::move(state.fingerprint), 0);
  return state;
}

void require_same_dataset(const std::string& path, std::int64_t items, const std::string& fingerprint,
                          const io::DatasetFile& dataset) {
  if (items != dataset.items()) {
    throw InputError(
        format("{}: it was trained on {} items, and {} has {}; name the dataset it was trained on", path,
               items, dataset.path(), dataset.items()));
  }
  if (fingerprint != dataset.fingerprint()) {
    throw InputError(
        format("{}: it was trained on the dataset with checksum {}, and that of {} is {}; name the "
               "dataset it was trained on",
               path, fingerprint, dataset.path(), dataset.fingerprint()));
  }
}

void load_weights(const std::string& path, const Services& services, model::Model& model) {
  SharedFile file(path, services, model.layout());
  file.fill("weights", model.parameters().master());
  services.backend.weights_changed(model.parameters());
}

RunState restore(const std::string& path, const Services& services, Trainer& trainer) {
  SharedFile file(path, services, trainer.model().layout());
  RunState state;
  on_root(services.communicator, [&] { state = state_of(path, file.file()); });
  broadcast(state, services.communicator);
  const std::int64_t steps = trainer.steps_per_epoch();
  if (state.step_in_epoch >= steps || state.updates_done != state.epoch * steps + state.step_in_epoch) {
    throw InputError(
        format("{}: {} updates do not make {} epochs of {} steps and {} steps more; use another checkpoint",
               path, state.updates_done, state.epoch, steps, state.step_in_epoch));
  }
  trainer.set_flat(FlatState::weights, [&](backend::FloatBuffer& flat) { file.fill("weights", flat); });
  trainer.set_flat(FlatState::first_moment,
                   [&](backend::FloatBuffer& flat) { file.fill("optimizer/first_moment", flat); });
  trainer.set_flat(FlatState::second_moment,
                   [&](backend::FloatBuffer& flat) { file.fill("optimizer/second_moment", flat); });
  trainer.go_on(state.updates_done, state.users_seen, state.loss_scale);
  return state;
}

}  // namespace vaecf::train
