#include <vaecf/math/initialisation.hpp>
#include <vaecf/model/network.hpp>

#include <algorithm>
#include <vector>

namespace vaecf::model {
namespace {

constexpr std::int64_t block_elements = 1 << 20;  // 4 MiB of logical rows at a time
constexpr float bias_deviation = 0.001F;

}  // namespace

void Network::initialise(std::uint64_t seed) {
  std::vector<float> values;
  for (std::size_t i = 0; i < layout_.tensors.size(); ++i) {
    const backend::TensorSpec& spec = layout_.tensors[i].spec;
    const std::uint32_t number = initialisation_number(shape_, spec.name);
    // Features stand below items in one matrix, and what a user gives of either has the same length.
    const bool of_features = static_cast<int>(i) == feature_table_;
    const std::int64_t inputs = spec.rows + (of_features ? items_ : 0);
    const bool bias = spec.kind == backend::TensorKind::bias || spec.kind == backend::TensorKind::output_bias;
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
      backend_.import_rows(layout_, static_cast<int>(i), rows, values, parameters_->master());
    }
  }
  backend_.weights_changed(*parameters_);
}

}  // namespace vaecf::model
