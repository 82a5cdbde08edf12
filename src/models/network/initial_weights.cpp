#include "models/initial_weights.hpp"

#include <vaecf/math/random.hpp>

#include "models/network/network.hpp"

namespace vaecf::models {

void initialize(Model& network, const NetworkShape& shape, std::uint64_t seed) {
  constexpr float bias_deviation = 0.001F;
  const std::vector<device::TensorSpec> tensors = network.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const device::TensorSpec& spec = tensors[i];
    const std::uint32_t number = rng_tensor_id(shape, spec.name);
    const std::int64_t inputs = fan_in(network, spec);
    const bool bias = spec.kind == device::TensorKind::bias || spec.kind == device::TensorKind::output_bias;
    write_tensor(network, static_cast<int>(i), spec, [&](std::uint64_t index) {
      if (shape.initial_deviation > 0.0F)
        return shape.initial_deviation * math::normal_element(seed, number, index);
      return bias ? math::truncated_normal(seed, number, index, bias_deviation)
                  : math::initial_weight(seed, number, index, inputs, spec.logical_columns());
    });
  }
  network.finish_writing();
}

}  // namespace vaecf::models
