#include <vaecf/base/enum_names.hpp>
#include <vaecf/base/error.hpp>
#include <vaecf/keys/key.hpp>
#include <vaecf/models/kind.hpp>

#include <algorithm>
#include <array>
#include <cstddef>

namespace vaecf::models {

std::span<const std::string_view> shared_keys() {
  static constexpr std::array<std::string_view, 7> keys = {
      "model.hidden",        "model.latent",     "model.dropout",     "model.history_dropout",
      "model.user_features", "train.annealing.", "train.weight_decay"};
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

double TrainedKind::operations(const ModelOptions& /*options*/,
                               const std::vector<device::TensorSpec>& tensors) const {
  return 6.0 * static_cast<double>(dense_weights(tensors));
}

double TrainedKind::checkpoint_bytes(const ModelOptions& options, const io::DatasetFile& dataset) const {
  return 12.0 * static_cast<double>(parameter_count(tensors(options, input_dims(options, dataset))));
}

LoadedModel TrainedKind::load(WeightReader& reader, const ModelOptions& options, const InputDims& inputs,
                              const Context& context, std::int64_t max_users, bool explains) const {
  std::unique_ptr<TrainableModel> model = make(options, inputs, context.device, max_users, 1);
  reader.load_weights(*model);
  std::unique_ptr<Reasons> found = explains ? reasons(*model, reader, context) : nullptr;
  return {std::move(model), std::move(found)};
}

}  // namespace vaecf::models
