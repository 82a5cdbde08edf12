#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/model/model.hpp>
#include <vaecf/model/network.hpp>

#include <algorithm>
#include <array>

namespace vaecf::model {
namespace {

struct ModelType {
  std::string_view name;
  std::unique_ptr<Model> (*make)(const ModelOptions&, Inputs, backend::Backend&, std::int64_t max_users);
};

std::unique_ptr<Model> make_network(const ModelOptions& options, Inputs inputs, backend::Backend& backend,
                                    std::int64_t max_users) {
  return std::make_unique<Network>(options, inputs, backend, max_users);
}

/// A new model is one line here, and one folder that implements Model.
constexpr std::array<ModelType, 2> types{{{"mult_vae", make_network}, {"mult_dae", make_network}}};

}  // namespace

std::unique_ptr<Model> make_model(const ModelOptions& options, Inputs inputs, backend::Backend& backend,
                                  std::int64_t max_users) {
  check(options);
  const auto* type = std::ranges::find(types, options.type, &ModelType::name);
  return type->make(options, inputs, backend, max_users);
}

std::vector<std::string_view> model_types() {
  std::vector<std::string_view> names;
  for (const ModelType& type : types) names.push_back(type.name);
  return names;
}

}  // namespace vaecf::model
