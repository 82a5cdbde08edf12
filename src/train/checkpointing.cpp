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

}  // namespace

void save_checkpoint(const std::string& path, const SessionOptions& options, const Services& services,
                     const RunState& state, const std::string& fingerprint, model::Model& model,
                     optim::Optimizer& optimizer) {
  on_root(services.communicator, [&] {
    const backend::ParameterLayout& layout = model.layout();
    const std::array<std::pair<const char*, const backend::FloatBuffer*>, 3> groups = {
        {{"weights", &model.parameters().master()},
         {"optimizer/first_moment", &optimizer.first_moment()},
         {"optimizer/second_moment", &optimizer.second_moment()}}};
    std::vector<io::TensorSource> tensors;
    for (const auto& [group, buffer] : groups) {
      for (std::size_t i = 0; i < layout.tensors.size(); ++i) {
        const backend::TensorSpec& spec = layout.tensors[i].spec;
        const auto* flat = buffer;
        tensors.push_back(
            {format("{}/{}", group, spec.name), spec.rows, spec.columns, is_vector(spec),
             [&services, &layout, flat, i](std::int64_t begin, std::int64_t end, std::span<float> out) {
               services.backend.export_rows(layout, static_cast<int>(i), {begin, end}, *flat, out);
             }});
      }
    }
    io::write_checkpoint(path, attributes_of(options, state, fingerprint, model), tensors);
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
