#include "models/recvae/recvae.hpp"

#include <vaecf/base/error.hpp>

#include <gtest/gtest.h>

#include <cmath>

#include "models/model_fixture.hpp"
#include "support/reference_ops.hpp"

namespace vaecf::models {
namespace {

constexpr std::int64_t item_count = 13;
constexpr std::int64_t width = 9;
const ModelOptions small = {ModelType::recvae, {width}, 4, 0.3};
const Csr small_users = {{0, 3, 3, 8, 9}, {0, 4, 9, 1, 2, 3, 7, 12, 5}};

TEST(RecVae, ScoresEqualTheDefinition) {
  using testing::Matrix;
  const auto device = fp32_device();
  RecVae model(small, item_count, *device, small_users.rows());
  model.initialize(11);
  // Gains and offsets that are not 1 and 0.
  for (const char* name : {"encoder_2/gain", "encoder_4/offset"}) {
    std::vector<float> values = weights_of(*device, model, name);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += 0.1F * static_cast<float>(i);
    import_tensor(*device, model.layout(), name, values, model.parameters().master());
  }
  model.finish_writing();
  const auto matrix = [&](const std::string& name) {
    const auto& spec = model.layout().tensors[static_cast<std::size_t>(model.layout().find(name))].spec;
    return Matrix(spec.rows, spec.columns, weights_of(*device, model, name));
  };
  const auto linear = [&](const Matrix& input, const std::string& layer) {
    return testing::reference::linear(input, matrix(layer + "/weight"), matrix(layer + "/bias"),
                                      device::Activation::identity);
  };
  Matrix h(small_users.rows(), item_count), skips(small_users.rows(), width);
  for (std::int64_t user = 0; user < h.rows; ++user) {
    const auto row = small_users.view().row(user);
    for (const std::int32_t item : row) h.at(user, item) = 1.0 / std::sqrt(static_cast<double>(row.size()));
  }
  for (const std::string layer : {"encoder_1", "encoder_2", "encoder_3", "encoder_4", "encoder_5"}) {
    Matrix s = linear(h, layer);
    for (std::size_t i = 0; i < s.values.size(); ++i) s.values[i] += skips.values[i];
    h = testing::reference::swish_norm(s, matrix(layer + "/gain"), matrix(layer + "/offset"));
    for (std::size_t i = 0; i < s.values.size(); ++i) skips.values[i] += h.values[i];
  }
  const Matrix statistics = linear(h, "encoder_6");
  const WholeBatch whole(*device, small_users, 100, item_count);
  std::vector<float> found(static_cast<std::size_t>(small_users.rows()) * 4);
  device->read_matrix(model.forward_for_scoring({*whole.batch}), found);
  for (std::int64_t user = 0; user < h.rows; ++user)
    for (std::int64_t k = 0; k < 4; ++k)
      EXPECT_NEAR(found[static_cast<std::size_t>(user * 4 + k)], statistics.at(user, k), 1e-5)
          << user << " " << k;
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
  own_options<RecVaeOptions>(constant).beta = 0.25;
  for (const ModelOptions& each : {small, constant}) {
    RecVae model(each, item_count, *device, small_users.rows());
    model.initialize(11);
    model.start_epoch();
    auto gradients = device->make_buffer(model.layout().size);
    const float beta = static_cast<float>(own_options<RecVaeOptions>(each).beta);
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
  EXPECT_EQ(trained_kind_of(ModelType::recvae).operations(paper, tensors),
            (3 * (8 * encoder + 4 * decoder) + 2 * encoder + 4 * decoder) / 4);
  EXPECT_EQ(trained_kind_of(ModelType::recvae).passes(paper),
            (std::vector<int>{recvae_encoder, recvae_encoder, recvae_encoder, recvae_decoder}));
}

TEST(RecVae, NeedsOneHiddenWidth) {
  EXPECT_THROW(recvae_shape({ModelType::recvae, {}, 3, 0.5}, 30), InputError);
  EXPECT_THROW(recvae_shape({ModelType::recvae, {5, 6}, 3, 0.5}, 30), InputError);
}

}  // namespace
}  // namespace vaecf::models
