#pragma once

#include <vaecf/model/network.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

namespace vaecf::model {

template <class Device>
std::unique_ptr<Model> make_network(const ModelOptions& options, InputDims inputs, Device& device,
                                    std::int64_t max_users) {
  return std::make_unique<Network<Device>>(options, inputs, device, max_users);
}

template <class Device>
using ModelFactory = std::unique_ptr<Model> (*)(const ModelOptions&, InputDims, Device&,
                                                std::int64_t max_users);

/// One factory for each of model_types. It makes a model with zero weights for batches of up to `max_users`
/// users.
template <class Device>
constexpr auto model_factories = std::to_array<ModelFactory<Device>>({make_network<Device>,
                                                                      make_network<Device>});

/// Makes a model of type `options.type`, which must be one of model_types.
template <class Device>
std::unique_ptr<Model> make_model(const ModelOptions& options, InputDims inputs, Device& device,
                                  std::int64_t max_users) {
  static_assert(model_factories<Device>.size() == model_types.size());
  const auto type = std::ranges::find(model_types, options.type) - model_types.begin();
  return model_factories<Device>.at(static_cast<std::size_t>(type))(options, inputs, device, max_users);
}

}  // namespace vaecf::model
