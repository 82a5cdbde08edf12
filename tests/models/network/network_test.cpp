#include <vaecf/base/error.hpp>
#include <vaecf/math/random.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <tuple>

#include "models/model_fixture.hpp"

namespace vaecf::models {
namespace {

using device::TensorKind;
using Row = std::tuple<std::string, std::int64_t, std::int64_t, TensorKind, bool>;

std::vector<Row> rows_of(const ModelOptions& options, InputDims items) {
  std::vector<Row> rows;
  for (const device::TensorSpec& s : tensor_specs(shape_of(options, items))) {
    rows.emplace_back(s.name, s.rows, s.columns, s.kind, s.decays);
  }
  return rows;
}

TEST(Network, MultVaeOfThePaper) {
  const std::vector<Row> expected = {{"decoder_2/weight", 600, 20108, TensorKind::output_table, true},
                                     {"decoder_2/bias", 1, 20108, TensorKind::output_bias, false},
                                     {"decoder_1/weight", 200, 600, TensorKind::matrix, true},
                                     {"decoder_1/bias", 1, 600, TensorKind::bias, false},
                                     {"encoder_2/weight", 600, 400, TensorKind::matrix, true},
                                     {"encoder_2/bias", 1, 400, TensorKind::bias, false},
                                     {"encoder_1/bias", 1, 600, TensorKind::bias, false},
                                     {"encoder_1/weight", 20108, 600, TensorKind::input_table, true}};
  EXPECT_EQ(rows_of({}, 20108), expected);
  std::int64_t parameters = 0;
  for (const Row& row : expected) parameters += std::get<1>(row) * std::get<2>(row);
  EXPECT_EQ(parameters, 24511308);
}

TEST(Network, MultDaeWithoutHiddenLayers) {
  const std::vector<Row> expected = {{"decoder_1/weight", 200, 30, TensorKind::output_table, true},
                                     {"decoder_1/bias", 1, 30, TensorKind::output_bias, false},
                                     {"encoder_1/bias", 1, 200, TensorKind::bias, false},
                                     {"encoder_1/weight", 30, 200, TensorKind::input_table, true}};
  EXPECT_EQ(rows_of({ModelType::mult_dae, {}, 200, 0.5}, 30), expected);
}

TEST(Network, FeaturesHaveASeparateTableInTheFirstLayer) {
  std::vector<Row> expected = rows_of({ModelType::mult_vae, {12}, 3, 0.5}, 30);
  expected.insert(expected.end() - 1, {"encoder_1/feature_weight", 7, 12, TensorKind::input_table, true});
  EXPECT_EQ(rows_of({ModelType::mult_vae, {12}, 3, 0.5}, {30, 7}), expected);
  EXPECT_EQ(rows_of({ModelType::mult_vae, {}, 3, 0.5}, {30, 7})[3],
            Row("encoder_1/feature_weight", 7, 6, TensorKind::input_table, true));
}

TEST(Network, ReversesHiddenWidthsInTheDecoder) {
  const NetworkShape shape = shape_of({ModelType::mult_vae, {12, 8}, 3, 0.5}, 30);
  ASSERT_EQ(shape.encoder.size(), 3U);
  ASSERT_EQ(shape.decoder.size(), 3U);
  EXPECT_EQ(shape.encoder[2].inputs, 8);
  EXPECT_EQ(shape.encoder[2].outputs, 6);
  EXPECT_EQ(shape.decoder[0].inputs, 3);
  EXPECT_EQ(shape.decoder[0].outputs, 8);
  EXPECT_EQ(shape.decoder[1].outputs, 12);
  EXPECT_EQ(shape.decoder[2].outputs, 30);
}

TEST(Network, InitializationIndicesFollowTheDataFlow) {
  const NetworkShape shape = shape_of({}, 50);
  const std::vector<std::string> names = {"encoder_1/weight", "encoder_1/bias",   "encoder_2/weight",
                                          "encoder_2/bias",   "decoder_1/weight", "decoder_1/bias",
                                          "decoder_2/weight", "decoder_2/bias"};
  for (std::uint32_t i = 0; i < names.size(); ++i) EXPECT_EQ(rng_tensor_id(shape, names[i]), i);
  EXPECT_THROW(rng_tensor_id(shape, "decoder_3/bias"), RunError);
  EXPECT_THROW(rng_tensor_id(shape, "encoder_1/feature_weight"), RunError);
  EXPECT_EQ(rng_tensor_id(shape_of({}, {50, 7}), "encoder_1/feature_weight"), names.size());
}

const ModelOptions wide = {ModelType::mult_vae, {40}, 6, 0.5};
constexpr std::int64_t many_items = 30011;  // encoder_1 has more than one block of rows

TEST(Initialize, WeightsDependOnSeedTensorAndIndexOnly) {
  const auto device = fp32_device();
  Network model(shape_of(wide, many_items), many_items, *device, 1);
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
  Network model(shape_of(wide, many_items), many_items, *device, 1);
  initialize(model, model.shape(), 3);
  const auto bias = weights_of(*device, model, "decoder_2/bias");
  for (const float value : bias) ASSERT_LE(std::abs(value), 0.002F);
  // A normal distribution truncated at 2 standard deviations has variance 0.7737.
  EXPECT_NEAR(norm(bias) * norm(bias) / static_cast<double>(bias.size()), 0.7737e-6, 0.02e-6);
}

TEST(Initialize, FeaturesDoNotChangeOtherTensors) {
  const auto device = fp32_device();
  Network with(shape_of(wide, {50, 7}), {50, 7}, *device, 1);
  Network without(shape_of(wide, 50), 50, *device, 1);
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
