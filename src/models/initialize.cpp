#include <vaecf/math/random.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include "models/elsa.hpp"
#include "models/network.hpp"
#include "models/recvae.hpp"

namespace vaecf::models {
namespace {

constexpr std::int64_t block_elements = 1 << 20;  // 4 MiB
constexpr float bias_deviation = 0.001F;

/// Sets the elements of tensor `tensor` to value(index), where `index` is row-major in the logical tensor.
template <class Value>
void write_tensor(Model& model, int tensor, const device::TensorSpec& spec, const Value& value) {
  std::vector<float> values;
  const std::int64_t block_rows =
      std::max<std::int64_t>(1, block_elements / std::max<std::int64_t>(1, spec.columns));
  for (std::int64_t begin = 0; begin < spec.rows; begin += block_rows) {
    const Range rows{begin, std::min(spec.rows, begin + block_rows)};
    values.resize(static_cast<std::size_t>(rows.size() * spec.columns));
    float* element = values.data();
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      for (std::int64_t column = 0; column < spec.columns; ++column)
        *element++ = value(static_cast<std::uint64_t>(spec.logical_index(row, column)));
    }
    model.write_rows(tensor, rows, values);
  }
}

/// Returns the number of inputs of a weight's layer. Items and features act as rows of one matrix, and both
/// inputs have L2 norm 1.
std::int64_t fan_in(const Model& model, const device::TensorSpec& spec) {
  return spec.logical_rows() + (spec.name.ends_with("/feature_weight") ? model.items() : 0);
}

}  // namespace

void initialize(Model& network, const NetworkShape& shape, std::uint64_t seed) {
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

void initialize_elsa(Model& model, std::uint64_t seed) {
  const device::TensorSpec weight = model.tensors().front();
  write_tensor(model, 0, weight, [&](std::uint64_t index) {
    return math::initial_weight(seed, 0, index, weight.logical_rows(), weight.columns);
  });
  model.finish_writing();
}

void initialize_recvae(Model& model, const NetworkShape& shape, std::uint64_t seed) {
  const std::vector<device::TensorSpec> tensors = model.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const device::TensorSpec& spec = tensors[i];
    const auto tensor = static_cast<int>(i);
    if (spec.kind == device::TensorKind::gain || spec.kind == device::TensorKind::offset) {
      const float value = spec.kind == device::TensorKind::gain ? 1.0F : 0.0F;
      write_tensor(model, tensor, spec, [&](std::uint64_t) { return value; });
      continue;
    }
    std::int64_t inputs = fan_in(model, spec);
    for (const auto* layers : {&shape.encoder, &shape.decoder}) {
      for (const LayerShape& layer : *layers)
        if (spec.name == layer.name + "/bias") inputs = layer.inputs;
    }
    const std::uint32_t number = rng_tensor_id(shape, spec.name);
    const auto limit = static_cast<float>(1.0 / std::sqrt(static_cast<double>(inputs)));
    write_tensor(model, tensor, spec,
                 [&](std::uint64_t index) { return math::uniform_weight(seed, number, index, limit); });
  }
  model.finish_writing();
}

}  // namespace vaecf::models
