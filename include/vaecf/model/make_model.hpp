#pragma once

#include <vaecf/model/elsa.hpp>
#include <vaecf/model/network.hpp>
#include <vaecf/model/recvae.hpp>

#include <array>
#include <cstdint>
#include <memory>

namespace vaecf::model {

template <class Device>
using ModelFactory = std::unique_ptr<TrainableModel<Device>> (*)(const ModelOptions&, InputDims, Device&,
                                                                 std::int64_t max_users,
                                                                 std::int64_t size_multiple);

/// Makes a model of class `Class<Device>`.
template <template <class> class Class, class Device>
std::unique_ptr<TrainableModel<Device>> make_model_of(const ModelOptions& options, InputDims inputs,
                                                      Device& device, std::int64_t max_users,
                                                      std::int64_t size_multiple) {
  return std::make_unique<Class<Device>>(options, inputs, device, max_users, size_multiple);
}

/// One factory for each type that is trained in steps. It makes a model with zero weights for batches of up
/// to `max_users` users.
template <class Device>
constexpr auto model_factories = std::to_array<ModelFactory<Device>>(
    {make_model_of<Network, Device>, make_model_of<Network, Device>, make_model_of<Elsa, Device>,
     make_model_of<Network, Device>, make_model_of<RecVae, Device>});

/// Makes a model of type `options.type`, which must be trained in steps, with zero weights for batches of
/// up to `max_users` users; see TrainableModel for `size_multiple`.
template <class Device>
std::unique_ptr<TrainableModel<Device>> make_trainable_model(const ModelOptions& options, InputDims inputs,
                                                             Device& device, std::int64_t max_users,
                                                             std::int64_t size_multiple = 1) {
  return model_factories<Device>.at(static_cast<std::size_t>(options.type))(options, inputs, device,
                                                                            max_users, size_multiple);
}

}  // namespace vaecf::model
