#include <vaecf/math/initialization.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "models/model_fixture.hpp"

namespace vaecf::models {
namespace {

const ModelOptions wide = {ModelType::mult_vae, {40}, 6, 0.5};
constexpr std::int64_t many_items = 30011;  // encoder_1 has more than one block of rows

TEST(Initialize, WeightsDependOnSeedTensorAndIndexOnly) {
  const auto device = fp32_device();
  Network model(wide, many_items, *device, 1);
  initialize(model, model.shape(), (std::uint64_t{5} << 32) + 9);
  const std::map<std::string, std::uint32_t> numbers = {
      {"encoder_1/weight", 0}, {"encoder_2/weight", 2}, {"decoder_1/weight", 4}, {"decoder_2/weight", 6}};
  for (const auto& [name, number] : numbers) {
    const auto values = weights_of(*device, model, name);
    const auto& spec = model.layout().tensors[static_cast<std::size_t>(model.layout().find(name))].spec;
    for (std::size_t i = 0; i < values.size(); i += 31) {
      ASSERT_EQ(values[i],
                math::initial_weight((std::uint64_t{5} << 32) + 9, number, i, spec.rows, spec.columns))
          << name << " element " << i;
    }
  }
}

TEST(Initialize, BiasesAreSmallAndTruncated) {
  const auto device = fp32_device();
  Network model(wide, many_items, *device, 1);
  initialize(model, model.shape(), 3);
  const auto bias = weights_of(*device, model, "decoder_2/bias");
  for (const float value : bias) ASSERT_LE(std::abs(value), 0.002F);
  // A normal distribution truncated at 2 standard deviations has variance 0.7737.
  EXPECT_NEAR(norm(bias) * norm(bias) / static_cast<double>(bias.size()), 0.7737e-6, 0.02e-6);
}

TEST(Initialize, FeaturesDoNotChangeOtherTensors) {
  const auto device = fp32_device();
  Network with(wide, {50, 7}, *device, 1);
  Network without(wide, 50, *device, 1);
  initialize(with, with.shape(), 3);
  initialize(without, without.shape(), 3);
  for (const auto& tensor : without.layout().tensors) {
    const std::string& name = tensor.spec.name;
    EXPECT_EQ(weights_of(*device, with, name), weights_of(*device, without, name)) << name;
  }
  const auto values = weights_of(*device, with, "encoder_1/feature_weight");
  ASSERT_EQ(values.size(), 7U * 40U);
  for (std::size_t i = 0; i < values.size(); ++i) {
    // The fan-in includes the items' rows: 57 inputs.
    ASSERT_EQ(values[i], math::initial_weight(3, 8, i, 57, 40)) << i;
  }
}

}  // namespace
}  // namespace vaecf::models
