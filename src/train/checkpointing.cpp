#include "checkpointing.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include "agreement.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

namespace vaecf::train {
namespace {

constexpr std::int64_t format_version = 1;
constexpr std::int64_t block_elements = 1 << 20;

bool is_vector(const backend::TensorSpec& spec) {
  return spec.kind == backend::TensorKind::bias || spec.kind == backend::TensorKind::output_bias;
}

std::string hidden_text(const model::ModelOptions& model) {
  std::string text;
  for (const std::int64_t width : model.hidden) text += format("{}{}", text.empty() ? "" : ",", width);
  return text;
}

io::Attributes attributes_of(const SessionOptions& options, const RunState& state,
                             const std::string& fingerprint, const model::Model& model) {
  return {
      {"format_version", format_version},
      {"step", state.updates_done},
      {"epoch", state.epoch},
      {"step_in_epoch", state.step_in_epoch},
      {"users_seen", state.users_seen},
      {"best_metric", state.best_metric},
      {"best_epoch", state.best_epoch},
      {"select", options.validation.select},
      {"patience_count", state.patience_count},
      {"loss_scale", static_cast<double>(state.loss_scale.scale)},
      {"loss_scale_good_steps", std::int64_t{state.loss_scale.good_steps}},
      {"virtual_shards", std::int64_t{options.data.virtual_shards}},
      {"batch_size", options.train.batch_size},
      // Attributes are signed; the bits are what counts.
      {"seed", static_cast<std::int64_t>(options.train.seed)},
      {"items", model.items()},
      {"model_type", options.model.type},
      {"model_hidden", hidden_text(options.model)},
      {"model_latent", options.model.latent},
      {"model_dropout", options.model.dropout},
      {"dataset_checksum", fingerprint},
      {"configuration", options.configuration_text},
  };
}

void check_shapes(const std::string& path, const io::CheckpointFile& file, const model::Model& model) {
  for (const backend::TensorLayout& tensor : model.layout().tensors) {
    const std::string name = "weights/" + tensor.spec.name;
    const auto& infos = file.tensors();
    const auto info = std::find_if(infos.begin(), infos.end(), [&](const auto& i) { return i.name == name; });
    const std::string hint = format(
        "it holds a {} with hidden layers [{}] and latent {}; give the configuration it was trained with",
        file.attribute<std::string>("model_type"), file.attribute<std::string>("model_hidden"),
        file.attribute<std::int64_t>("model_latent"));
    if (info == infos.end()) {
      throw InputError(format("{}: there is no /{}, which the configured model has; {}", path, name, hint));
    }
    if (info->rows != tensor.spec.rows || info->columns != tensor.spec.columns) {
      throw InputError(format("{}: /{} is ({}, {}) and the configured model's is ({}, {}); {}", path, name,
                              info->rows, info->columns, tensor.spec.rows, tensor.spec.columns, hint));
    }
  }
  const auto layers = std::count_if(file.tensors().begin(), file.tensors().end(),
                                    [](const auto& info) { return info.name.starts_with("weights/"); });
  if (layers != static_cast<std::int64_t>(model.layout().tensors.size())) {
    throw InputError(
        format("{}: it has {} weight tensors and the configured model {}; give the configuration "
               "it was trained with",
               path, layers, model.layout().tensors.size()));
  }
}

/// Brings sharded weights and moments to rank 0, one after the other as its writer wants them, with the other
/// ranks at its service until it lets them go.
class GatheredStates {
 public:
  GatheredStates(Trainer& trainer, comm::Communicator& communicator)
      : trainer_(trainer), communicator_(communicator) {}

  /// On rank 0.
  const backend::FloatBuffer& get(FlatState state) {
    if (state == there_ && flat_ != nullptr) return *flat_;
    call(static_cast<std::int64_t>(state));
    there_ = state;
    flat_ = &trainer_.flat(state);
    return *flat_;
  }
  void release() { call(no_more); }
  /// On all others.
  void serve() {
    while (trainer_.sharded()) {
      const std::int64_t wanted = call(0);
      if (wanted == no_more) return;
      trainer_.flat(static_cast<FlatState>(wanted));
    }
  }

 private:
  static constexpr std::int64_t no_more = -1;

  /// Rank 0's number.
  std::int64_t call(std::int64_t number) {
    if (trainer_.sharded()) communicator_.broadcast(std::span<std::int64_t>(&number, 1), 0);
    return number;
  }

  Trainer& trainer_;
  comm::Communicator& communicator_;
  FlatState there_ = FlatState::weights;
  const backend::FloatBuffer* flat_ = nullptr;
};

std::vector<io::TensorSource> sources_of(const backend::Backend& backend,
                                         const backend::ParameterLayout& layout, GatheredStates& states) {
  constexpr std::array<std::pair<const char*, FlatState>, 3> groups = {
      {{"weights", FlatState::weights},
       {"optimizer/first_moment", FlatState::first_moment},
       {"optimizer/second_moment", FlatState::second_moment}}};
  std::vector<io::TensorSource> tensors;
  for (const auto& [group, which] : groups) {
    for (std::size_t i = 0; i < layout.tensors.size(); ++i) {
      const backend::TensorSpec& spec = layout.tensors[i].spec;
      tensors.push_back(
          {format("{}/{}", group, spec.name), spec.rows, spec.columns, is_vector(spec),
           [&, which = which, i](std::int64_t begin, std::int64_t end, std::span<float> out) {
             backend.export_rows(layout, static_cast<int>(i), {begin, end}, states.get(which), out);
           }});
    }
  }
  return tensors;
}

}  // namespace

void save_checkpoint(const std::string& path, const SessionOptions& options, const Services& services,
                     const RunState& state, const std::string& fingerprint, Trainer& trainer) {
  GatheredStates states(trainer, services.communicator);
  if (services.communicator.rank() != 0) states.serve();
  on_root(services.communicator, [&] {
    try {
      io::write_checkpoint(path, attributes_of(options, state, fingerprint, trainer.model()),
                           sources_of(services.backend, trainer.model().layout(), states));
    } catch (...) {
      states.release();
      throw;
    }
    states.release();
  });
}

LoadedCheckpoint read_checkpoint_state(const std::string& path, const Services& services) {
  LoadedCheckpoint state;
  std::array<std::int64_t, 3> numbers = {};
  on_root(services.communicator, [&] {
    const io::CheckpointFile file(path);
    const auto version = file.attribute<std::int64_t>("format_version");
    if (version != format_version) {
      throw InputError(
          format("{}: format {} is not one that this version reads ({}); write it again with this "
                 "version, or use the one that made it",
                 path, version, format_version));
    }
    state.fingerprint = file.attribute<std::string>("dataset_checksum");
    numbers = {file.attribute<std::int64_t>("epoch"), file.attribute<std::int64_t>("items"),
               static_cast<std::int64_t>(state.fingerprint.size())};
  });
  services.communicator.broadcast(std::span<std::int64_t>(numbers), 0);
  state.epoch = numbers[0];
  state.items = numbers[1];
  state.fingerprint.resize(static_cast<std::size_t>(numbers[2]));
  services.communicator.broadcast(std::span<char>(state.fingerprint), 0);
  return state;
}

void load_weights(const std::string& path, const Services& services, model::Model& model) {
  std::optional<io::CheckpointFile> file;
  on_root(services.communicator, [&] {
    file.emplace(path);
    check_shapes(path, *file, model);
  });
  std::vector<float> values;
  const backend::ParameterLayout& layout = model.layout();
  for (std::size_t i = 0; i < layout.tensors.size(); ++i) {
    const backend::TensorSpec& spec = layout.tensors[i].spec;
    const std::int64_t block_rows = std::max<std::int64_t>(1, block_elements / spec.columns);
    for (std::int64_t begin = 0; begin < spec.rows; begin += block_rows) {
      const Range rows{begin, std::min(spec.rows, begin + block_rows)};
      values.resize(static_cast<std::size_t>(rows.size() * spec.columns));
      on_root(services.communicator,
              [&] { file->read_rows("weights/" + spec.name, rows.begin, rows.end, values); });
      services.communicator.broadcast(std::span<float>(values), 0);
      services.backend.import_rows(layout, static_cast<int>(i), rows, values, model.parameters().master());
    }
  }
  services.backend.weights_changed(model.parameters());
}

}  // namespace vaecf::train
