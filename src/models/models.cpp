#include <vaecf/models/models.hpp>

#include <array>
#include <cstddef>

namespace vaecf::models {
namespace {

using enum ModelType;

/// One row for each type, in their order.
constexpr std::array<ModelFacts, 7> models = {{
    {.type = mult_vae,
     .layers = true,
     .features = true,
     .has_kl = true,
     .anneals = true,
     .parameter_server = true},
    {.type = mult_dae, .layers = true, .features = true, .parameter_server = true},
    {.type = elsa, .item_vectors = true},
    {.type = autoencoder, .layers = true, .plain = true, .features = true},
    {.type = recvae, .layers = true, .features = true, .has_kl = true, .alternates = true},
    {.type = ease, .solved = true, .inverts = true},
    {.type = item_knn, .solved = true},
}};

}  // namespace

const ModelFacts& facts_of(ModelType type) {
  return models.at(static_cast<std::size_t>(type));
}

const ModelFacts* find_model(std::string_view name) {
  const auto type = parse_enum<ModelType>(name);
  return type ? &facts_of(*type) : nullptr;
}

}  // namespace vaecf::models
