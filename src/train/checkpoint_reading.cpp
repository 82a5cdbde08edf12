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

/// Rank 0's file, read for all ranks.
class SharedFile {
 public:
  SharedFile(const std::string& path, const Services& services, std::vector<backend::TensorSpec> specs)
      : path_(path), services_(services), specs_(std::move(specs)) {
    on_root(services.communicator, [&] {
      file_.emplace(path);
      require_format(path, *file_);
    });
  }

  /// On rank 0.
  const io::CheckpointFile& file() const { return *file_; }

  /// Calls use(tensor, rows, values) on all ranks with the tensors below `group`, in blocks of rows.
  /// Collective.
  template <class Use>
  void read(const std::string& group, Use&& use) {
    on_root(services_.communicator, [&] { check_shapes(path_, *file_, specs_, group); });
    std::vector<float> values;
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      const backend::TensorSpec& spec = specs_[i];
      const std::int64_t block_rows = std::max<std::int64_t>(1, block_elements / spec.columns);
      for (std::int64_t begin = 0; begin < spec.rows; begin += block_rows) {
        const Range rows{begin, std::min(spec.rows, begin + block_rows)};
        values.resize(static_cast<std::size_t>(rows.size() * spec.columns));
        on_root(services_.communicator,
                [&] { file_->read_rows(format("{}/{}", group, spec.name), rows.begin, rows.end, values); });
        services_.communicator.broadcast(std::span<float>(values), 0);
        use(static_cast<int>(i), rows, std::span<const float>(values));
        services_.communicator.activity().progressed();
      }
    }
  }

 private:
  std::string path_;
  Services services_;
  std::vector<backend::TensorSpec> specs_;
  std::optional<io::CheckpointFile> file_;
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
  SharedFile file(path, services, model.tensors());
  file.read("weights", [&](int tensor, Range rows, std::span<const float> values) {
    model.write_rows(tensor, rows, values);
  });
  model.finish_writing();
}

RunState restore(const std::string& path, const Services& services, Trainer& trainer) {
  SharedFile file(path, services, trainer.model().tensors());
  RunState state;
  on_root(services.communicator, [&] { state = state_of(path, file.file()); });
  broadcast(state, services.communicator);
  const std::int64_t steps = trainer.steps_per_epoch();
  if (state.step_in_epoch >= steps || state.updates_done != state.epoch * steps + state.step_in_epoch) {
    throw InputError(
        format("{}: {} updates do not make {} epochs of {} steps and {} steps more; use another checkpoint",
               path, state.updates_done, state.epoch, steps, state.step_in_epoch));
  }
  // Before the first update all ranks compute with the weights as they were drawn.
  const bool updated = state.updates_done > 0;
  const auto take = [&](FlatState part, const char* group) {
    services.engine.write(part, updated, [&](const WriteRows& write) { file.read(group, write); });
  };
  take(FlatState::weights, "weights");
  take(FlatState::first_moment, "optimizer/first_moment");
  take(FlatState::second_moment, "optimizer/second_moment");
  trainer.go_on(state.updates_done, state.users_seen, state.loss_scale);
  return state;
}

}  // namespace vaecf::train
