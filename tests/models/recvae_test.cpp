#include <vaecf/base/error.hpp>

#include <gtest/gtest.h>

#include <cmath>

#include "models/model_fixture.hpp"

namespace vaecf::models {
namespace {

constexpr std::int64_t item_count = 13;
constexpr std::int64_t width = 9;
const ModelOptions small = {ModelType::recvae, {width}, 4, 0.3};
const Csr small_users = {{0, 3, 3, 8, 9}, {0, 4, 9, 1, 2, 3, 7, 12, 5}};

using Values = std::vector<double>;

/// Returns row * W + b.
Values affine(const Values& row, const std::vector<float>& weight, const std::vector<float>& bias) {
  Values out(bias.begin(), bias.end());
  for (std::size_t i = 0; i < row.size(); ++i)
    for (std::size_t j = 0; j < out.size(); ++j)
      out[j] += row[i] * static_cast<double>(weight[i * out.size() + j]);
  return out;
}

/// Returns the layer normalization of swish(s), with epsilon 0.1.
Values normalized_swish(const Values& s, const std::vector<float>& gain, const std::vector<float>& offset) {
  Values y;
  double mean = 0.0;
  for (const double value : s) mean += y.emplace_back(value / (1.0 + std::exp(-value)));
  mean /= static_cast<double>(s.size());
  double variance = 0.0;
  for (const double value : y) variance += (value - mean) * (value - mean);
  variance /= static_cast<double>(s.size());
  for (std::size_t j = 0; j < y.size(); ++j)
    y[j] = (y[j] - mean) / std::sqrt(variance + 0.1) * static_cast<double>(gain[j]) +
           static_cast<double>(offset[j]);
  return y;
}

TEST(RecVae, ScoresEqualTheDefinition) {
  const auto device = fp32_device();
  RecVae model(small, item_count, *device, small_users.rows());
  model.initialize(11);
  const auto weights = [&](const std::string& name) { return weights_of(*device, model, name); };
  // Gains and offsets that are not 1 and 0.
  for (const char* name : {"encoder_2/gain", "encoder_4/offset"}) {
    std::vector<float> values = weights(name);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += 0.1F * static_cast<float>(i);
    import_tensor(*device, model.layout(), name, values, model.parameters().master());
  }
  model.finish_writing();
  const WholeBatch whole(*device, small_users, 100, item_count);
  const auto& mu = model.forward_for_scoring({*whole.batch});
  std::vector<float> found(static_cast<std::size_t>(small_users.rows()) * 4);
  device->read_matrix(mu, found);
  for (std::int64_t user = 0; user < small_users.rows(); ++user) {
    const auto row = small_users.view().row(user);
    Values h(item_count, 0.0);
    for (const std::int32_t item : row)
      h[static_cast<std::size_t>(item)] = 1.0 / std::sqrt(static_cast<double>(row.size()));
    Values skips(width, 0.0);
    for (const std::string layer : {"encoder_1", "encoder_2", "encoder_3", "encoder_4", "encoder_5"}) {
      Values s = affine(h, weights(layer + "/weight"), weights(layer + "/bias"));
      for (std::size_t j = 0; j < s.size(); ++j) s[j] += skips[j];
      h = normalized_swish(s, weights(layer + "/gain"), weights(layer + "/offset"));
      for (std::size_t j = 0; j < h.size(); ++j) skips[j] += h[j];
    }
    const Values statistics = affine(h, weights("encoder_6/weight"), weights("encoder_6/bias"));
    for (std::size_t k = 0; k < 4; ++k)
      EXPECT_NEAR(found[static_cast<std::size_t>(user) * 4 + k], statistics[k], 1e-5) << user << " " << k;
  }
}

TEST(RecVae, InitialValuesAreUniformWithinTheInverseRootOfTheInputs) {
  const auto device = fp32_device();
  RecVae model({ModelType::recvae, {50}, 40, 0.5}, {200, 25}, *device, 1);
  model.initialize(3);
  for (const auto& [name, inputs] :
       std::vector<std::pair<std::string, double>>{{"encoder_1/weight", 200},
                                                   {"encoder_1/feature_weight", 225},
                                                   {"encoder_1/bias", 200},
                                                   {"encoder_3/weight", 50},
                                                   {"encoder_6/weight", 50},
                                                   {"decoder_1/weight", 40},
                                                   {"decoder_1/bias", 40}}) {
    const auto values = weights_of(*device, model, name);
    const double limit = 1.0 / std::sqrt(inputs);
    for (const float value : values) ASSERT_LE(std::abs(value), limit) << name;
    const double variance = norm(values) * norm(values) / static_cast<double>(values.size());
    EXPECT_NEAR(variance / (limit * limit / 3.0), 1.0, 4.0 / std::sqrt(static_cast<double>(values.size())))
        << name;
  }
  const auto gain = weights_of(*device, model, "encoder_5/gain");
  EXPECT_EQ(gain, std::vector<float>(50, 1.0F));
  EXPECT_EQ(weights_of(*device, model, "encoder_5/offset"), std::vector<float>(50, 0.0F));
}

TEST(RecVae, KlWeightIsGammaTimesTheItemsOrConstant) {
  const auto device = fp32_device();
  const WholeBatch whole(*device, small_users, 100, item_count);
  ModelOptions constant = small;
  constant.recvae.beta = 0.25;
  for (const ModelOptions& each : {small, constant}) {
    RecVae model(each, item_count, *device, small_users.rows());
    model.initialize(11);
    model.start_epoch();
    auto gradients = device->make_buffer(model.layout().size);
    const float beta = static_cast<float>(each.recvae.beta);
    const device::LossSums sums =
        gradient_step(*device, model, {*whole.batch}, gradients, {.seed = 7, .beta = beta, .rule = {}});
    if (beta > 0.0F) {
      EXPECT_DOUBLE_EQ(sums.weighted_kl, 0.25 * sums.kl);
    } else {
      EXPECT_GT(std::abs(sums.weighted_kl), 0.0);
      EXPECT_NE(sums.weighted_kl / sums.kl, 0.005);
    }
  }
}

TEST(RecVae, GroupsPartitionTheParametersAtMultiples) {
  const auto device = fp32_device();
  RecVae model(small, item_count, *device, 1, 64 * 3);
  const auto parameter_groups = model.parameter_groups();
  ASSERT_EQ(parameter_groups.size(), 2U);
  EXPECT_EQ(parameter_groups[recvae_encoder].begin % (64 * 3), 0);
  EXPECT_GE(parameter_groups[recvae_encoder].begin, parameter_groups[recvae_decoder].end);
  EXPECT_EQ(model.layout().tensors_in(parameter_groups[recvae_decoder]), (Range{0, 2}));
  EXPECT_EQ(model.layout().tensors_in(parameter_groups[recvae_encoder]), (Range{2, 24}));
}

TEST(RecVae, HasTheTensorsAndOperationsOfThePaper) {
  const ModelOptions paper = {ModelType::recvae, {600}, 200, 0.5};
  const auto tensors = tensor_specs(paper, 20108);
  EXPECT_EQ(parameter_count(tensors), 13754200 + 4041708);
  const double encoder = 4 * 600.0 * 600.0 + 600.0 * 400.0;
  const double decoder = 200.0 * 20108.0;
  EXPECT_EQ(dense_operations(paper, tensors),
            (3 * (8 * encoder + 4 * decoder) + 2 * encoder + 4 * decoder) / 4);
  EXPECT_EQ(passes_of_epoch(paper),
            (std::vector<int>{recvae_encoder, recvae_encoder, recvae_encoder, recvae_decoder}));
}

TEST(RecVae, NeedsOneHiddenWidth) {
  EXPECT_THROW(network_shape({ModelType::recvae, {}, 3, 0.5}, 30), InputError);
  EXPECT_THROW(network_shape({ModelType::recvae, {5, 6}, 3, 0.5}, 30), InputError);
}

}  // namespace
}  // namespace vaecf::models
