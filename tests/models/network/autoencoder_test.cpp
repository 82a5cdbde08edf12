
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "models/model_fixture.hpp"
#include "models/network/autoencoder_options.hpp"

namespace vaecf::models {
namespace {

const Csr two_users = {{0, 3, 5}, {0, 1, 4, 0, 2}};
const ModelOptions small_autoencoder = {ModelType::autoencoder, {2}, 1};

/// A network with the weights of a model that was computed by hand, in fp64.
class Autoencoder : public ::testing::Test {
 protected:
  Autoencoder() {
    std::vector<float> encoder;
    for (int i = 0; i < 10; ++i) encoder.push_back(static_cast<float>(i / 10.0 - 0.4));
    const std::vector<std::pair<const char*, std::vector<float>>> tensors = {
        {"encoder_1/weight", encoder},
        {"encoder_1/bias", {0.1F, -0.1F}},
        {"encoder_2/weight", {0.5F, -0.5F}},
        {"encoder_2/bias", {0.2F}},
        {"decoder_1/weight", {0.3F, -0.3F}},
        {"decoder_1/bias", {0.0F, 0.1F}},
        {"decoder_2/weight", {0.2F, -0.1F, 0.4F, 0.0F, 0.3F, -0.2F, 0.5F, 0.1F, 0.6F, -0.4F}},
        {"decoder_2/bias", {0.0F, 0.1F, -0.1F, 0.2F, 0.0F}}};
    for (const auto& [name, values] : tensors) {
      import_tensor(*device_, model_.layout(), name, values, model_.parameters().master());
    }
    model_.finish_writing();
  }

  std::unique_ptr<device::Device> device_ = fp32_device();
  Network model_{shape_of(small_autoencoder, 5), 5, *device_, 2};
};

TEST_F(Autoencoder, LossAndGradientsAreThoseOfTheReference) {
  const WholeBatch whole(*device_, two_users, 0, 5);
  auto gradients = device_->make_buffer(model_.layout().size);
  const device::LossSums sums = gradient_step(*device_, model_, {*whole.batch}, gradients);
  EXPECT_NEAR(sums.nll / 2.0, 0.2777264889183025, 1e-7);
  EXPECT_EQ(sums.kl, 0.0);
  EXPECT_EQ(sums.users, 2);
  // Sums over users; the reference has means.
  const auto decoder = export_tensor(*device_, model_.layout(), "decoder_2/weight", gradients);
  const std::array of_decoder{-0.02689599, 0.00379349, 0.00220333, 0.03161514, -0.00041668};
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(decoder[i] / 2.0F, of_decoder[i], 2e-8) << i;
  const auto encoder = export_tensor(*device_, model_.layout(), "encoder_1/weight", gradients);
  EXPECT_NEAR(encoder[0] / 2.0F, -0.00013360, 1e-8);
  EXPECT_NEAR(encoder[1] / 2.0F, 0.00013374, 1e-8);
}

TEST_F(Autoencoder, ScoresAreOutputs) {
  const Csr none = {{0, 0, 0}, {}};
  const auto loaded = model_.load_users({two_users.view(), {}, none.view(), 0});
  const BestItems all(model_, *loaded, 5, true);
  const std::array expected{0.50284567, 0.57148404, 0.54109845, 0.62020064, 0.49216919};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(all.scores[i], expected[static_cast<std::size_t>(all.items[i])], 1e-7) << all.items[i];
  }
  EXPECT_TRUE(std::ranges::is_sorted(all.scores, std::greater<>()));
  // The user has three items, so two of five positions are taken.
  const BestItems unseen(model_, *loaded, 5);
  EXPECT_EQ(unseen.items, (std::vector<std::int32_t>{3, 2, -1, -1, -1}));
  EXPECT_EQ(unseen.scores[2], -std::numeric_limits<float>::infinity());
}

TEST(AutoencoderShape, DropoutDoesNotApply) {
  ModelOptions dropping = small_autoencoder;
  dropping.dropout = 0.5;
  dropping.history_dropout = 0.5;
  const NetworkShape shape = shape_of(dropping, 5);
  EXPECT_EQ(shape.input.item_keep_prob, 1.0F);
  EXPECT_EQ(shape.input.history_keep_prob, 1.0F);
  EXPECT_FALSE(shape.input.normalized);
}

TEST(AutoencoderShape, WeightsAndBiasesStartNormal) {
  const auto device = fp32_device();
  ModelOptions wide{ModelType::autoencoder, {40}, 6};
  own_options<AutoencoderOptions>(wide).initial_deviation = 0.05;
  Network model(shape_of(wide, 3001), 3001, *device, 1);
  model.initialize(3);
  for (const char* name : {"encoder_1/weight", "decoder_2/bias"}) {
    const auto values = weights_of(*device, model, name);
    EXPECT_NEAR(norm(values) / std::sqrt(static_cast<double>(values.size())), 0.05, 0.002) << name;
    EXPECT_GT(std::ranges::max(values), 0.15F) << name << " is not truncated";
  }
}

}  // namespace
}  // namespace vaecf::models
