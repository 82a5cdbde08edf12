#include <vaecf/math/initialization.hpp>
#include <vaecf/model/network.hpp>

#include <algorithm>
#include <vector>

namespace vaecf::model {
namespace {

constexpr std::int64_t block_elements = 1 << 20;  // 4 MiB
constexpr float bias_deviation = 0.001F;

}  // namespace

void initialize(Model& network, const NetworkShape& shape, std::uint64_t seed) {
  std::vector<float> values;
  const std::vector<device::TensorSpec> tensors = network.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const device::TensorSpec& spec = tensors[i];
    const std::uint32_t number = rng_tensor_id(shape, spec.name);
    // Items and features act as rows of one matrix, and both inputs have L2 norm 1.
    const bool of_features = spec.name.ends_with("/feature_weight");
    const std::int64_t inputs = spec.rows + (of_features ? network.items() : 0);
    const bool bias = spec.kind == device::TensorKind::bias || spec.kind == device::TensorKind::output_bias;
    const std::int64_t block_rows = std::max<std::int64_t>(1, block_elements / spec.columns);
    for (std::int64_t begin = 0; begin < spec.rows; begin += block_rows) {
      const Range rows{begin, std::min(spec.rows, begin + block_rows)};
      values.resize(static_cast<std::size_t>(rows.size() * spec.columns));
      auto index = static_cast<std::uint64_t>(rows.begin * spec.columns);
      for (float& value : values) {
        value = bias ? math::truncated_normal(seed, number, index, bias_deviation)
                     : math::initial_weight(seed, number, index, inputs, spec.columns);
        ++index;
      }
      network.write_rows(static_cast<int>(i), rows, values);
    }
  }
  network.finish_writing();
}

}  // namespace vaecf::model
