#pragma once

#include <vaecf/model/network.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

namespace vaecf::model {

/// A type of model: the name that model.type has for it, and a function that makes one with weights of zero,
/// for up to `max_users` users at a time.
template <class Device>
struct ModelType {
  std::string_view name;
  std::unique_ptr<Model> (*make)(const ModelOptions&, Inputs, Device&, std::int64_t max_users);
};

template <class Device>
std::unique_ptr<Model> make_network(const ModelOptions& options, Inputs inputs, Device& device,
                                    std::int64_t max_users) {
  return std::make_unique<Network<Device>>(options, inputs, device, max_users);
}

/// A new model is one line here, and one folder that implements Model.
template <class Device>
constexpr std::array<ModelType<Device>, 2> types_of_models{
    {{"mult_vae", make_network<Device>}, {"mult_dae", make_network<Device>}}};

/// Makes the model that `options.type` names. Throws InputError if there is no such type.
template <class Device>
std::unique_ptr<Model> make_model(const ModelOptions& options, Inputs inputs, Device& device,
                                  std::int64_t max_users) {
  check(options);
  const auto* type = std::ranges::find(types_of_models<Device>, options.type, &ModelType<Device>::name);
  return type->make(options, inputs, device, max_users);
}

}  // namespace vaecf::model
