
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <random>

#include "models/model_fixture.hpp"
#include "models/network/autoencoder_options.hpp"

namespace vaecf::models {
namespace {

struct NetworkCase {
  const char* name;
  ModelOptions options;
  std::int64_t features = 0;
  int parameter_group = 0;
  bool weighted = false;
  friend std::ostream& operator<<(std::ostream& stream, const NetworkCase& n) { return stream << n.name; }
};

const Csr users = {{0, 3, 3, 8, 9, 14}, {0, 4, 9, 1, 2, 3, 7, 12, 5, 0, 6, 8, 10, 11}};
const Csr weighted_users = {
    users.offsets,
    users.columns,
    {1.5F, .25F, 1.25F, .5F, 2.0F, .75F, .875F, .875F, 3.0F, .125F, 1.0F, .5F, .7F, 1.3F}};
constexpr std::int64_t items = 13;
// One user has only features, another has none.
const Csr known_features = {{0, 3, 5, 5, 6, 10}, {0, 2, 4, 1, 3, 5, 0, 1, 2, 4}};
constexpr float beta = 0.3F;
const device::StepParams params = {.seed = 77, .step = 4, .beta = beta, .rule = {}};

class Gradient : public ::testing::TestWithParam<NetworkCase> {
 protected:
  /// Makes the model with initial weights, and other weights as its prior, if it has one.
  Gradient() {
    model_ = trained_kind_of(GetParam().options.type)
                 .make(GetParam().options, {items, GetParam().features}, *device_, users.rows());
    model_->initialize(3);
    model_->start_epoch();
    model_->initialize(11);
    gradients_ = device_->make_buffer(model_->layout().size);
    updated_ = model_->parameter_groups()[static_cast<std::size_t>(GetParam().parameter_group)];
  }
  device::LossSums losses(const Csr& rows, const Csr& features, const device::GradientReady& ready = {}) {
    const WholeBatch whole(*device_, rows, 100, items);
    const WholeBatch beside(*device_, features, 100, 6);
    const NetworkInput input{*whole.batch, GetParam().features > 0 ? beside.batch.get() : nullptr};
    return gradient_step(*device_, *model_, input, gradients_, params, GetParam().parameter_group, ready);
  }
  /// Computes the gradient; each element of the parameter group is reported once.
  device::LossSums compute(const Csr& rows, const Csr& features) {
    std::int64_t told = 0;
    const auto sums = losses(rows, features, [&](Range range, device::EventHandle) { told += range.size(); });
    EXPECT_EQ(told, updated_.size());
    return sums;
  }
  /// Returns the names of the tensors of the parameter group.
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    const Range tensors = model_->layout().tensors_in(updated_);
    for (std::int64_t t = tensors.begin; t < tensors.end; ++t)
      found.push_back(model_->layout().tensors[static_cast<std::size_t>(t)].spec.name);
    return found;
  }
  std::vector<float> gradient_of(const std::string& name) const {
    return export_tensor(*device_, model_->layout(), name, gradients_);
  }

  /// Fourth-order central difference of the loss at w along `direction`. Losses are about 50 with fp32 noise
  /// of about 1e-6 of that, so a step of 0.02 leaves errors well below 1e-2 in a slope of order 1.
  double slope(const std::string& name, const std::vector<float>& direction) {
    const std::vector<float> start = weights_of(*device_, *model_, name);
    const auto move = [&](double s) {
      std::vector<float> values(start.size());
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = start[i] + static_cast<float>(s) * direction[i];
      import_tensor(*device_, model_->layout(), name, values, model_->parameters().master());
      device_->refresh_copies(model_->parameters(), {0, model_->layout().size});
    };
    const auto loss = [&](double s) {
      move(s);
      const device::LossSums sums = losses(rows_, known_features);
      return sums.nll + sums.weighted_kl;
    };
    constexpr double h = 0.02;
    const double slope = (8.0 * (loss(h) - loss(-h)) - (loss(2 * h) - loss(-2 * h))) / (12.0 * h);
    move(0.0);
    return slope;
  }

  const Csr& rows_ = GetParam().weighted ? weighted_users : users;
  std::unique_ptr<device::Device> device_ = fp32_device();
  std::unique_ptr<TrainableModel> model_;
  device::Buffer gradients_;
  Range updated_;
};

/// Returns an autoencoder with the other choices.
ModelOptions other_autoencoder() {
  ModelOptions options{ModelType::autoencoder, {9}, 4};
  own_options<AutoencoderOptions>(options) = {device::Activation::tanh, device::Loss::multinomial, 0.5};
  return options;
}

TEST_P(Gradient, EqualsFiniteDifferencesForEveryTensor) {
  const ModelOptions& options = GetParam().options;
  const InputDims inputs{items, GetParam().features};
  const NetworkShape shape = shape_of(options, inputs);
  EXPECT_EQ(compute(rows_, known_features).kl != 0.0, shape.variational);
  // Mean squared errors are below 1, other losses about 50.
  const double scale = shape.loss == device::Loss::squared ? 0.01 : 1.0;
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::map<std::string, std::vector<float>> gradients;
  for (const std::string& name : names()) gradients[name] = gradient_of(name);
  for (const auto& [name, gradient] : gradients) {
    const double size = norm(gradient);
    ASSERT_GT(size, 1e-3 * scale) << name;
    // Along the gradient, the slope is its norm; along other directions, the projection.
    for (int d = 0; d < 4; ++d) {
      std::vector<float> direction = gradient;
      if (d > 0) std::ranges::generate(direction, [&] { return normal(random); });
      const double length = norm(direction);
      double expected = 0.0;
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        direction[i] = static_cast<float>(direction[i] / length);
        expected += static_cast<double>(gradient[i]) * direction[i];
      }
      EXPECT_NEAR(slope(name, direction), expected, 2e-3 * std::max(scale, size))
          << name << ", gradient norm " << size;
    }
  }
}

TEST_P(Gradient, EmptyBatchGivesZeroGradients) {
  device_->fill(gradients_, 7.0F);
  const device::LossSums sums = compute({}, {});
  EXPECT_EQ(sums.nll, 0.0);
  EXPECT_EQ(sums.kl, 0.0);
  for (const std::string& name : names()) EXPECT_EQ(norm(gradient_of(name)), 0.0) << name;
}

TEST(ModelFeatures, MustMatchTheModel) {
  const auto device = fp32_device();
  const WholeBatch whole(*device, users, 100, items);
  const WholeBatch beside(*device, known_features, 100, 6);
  const ModelOptions options{ModelType::mult_vae, {9}, 4, 0.3};
  Network with(shape_of(options, {items, 6}), {items, 6}, *device, users.rows());
  Network without(shape_of(options, items), items, *device, users.rows());
  EXPECT_THROW(with.forward_for_scoring({*whole.batch}), std::logic_error);
  EXPECT_THROW(without.forward_for_scoring({*whole.batch, beside.batch.get()}), std::logic_error);
}

INSTANTIATE_TEST_SUITE_P(
    Networks, Gradient,
    ::testing::Values(
        NetworkCase{"vae", {ModelType::mult_vae, {9}, 4, 0.3}},
        NetworkCase{"vae_deep", {ModelType::mult_vae, {9, 7, 6}, 4, 0.5}},
        NetworkCase{"vae_flat", {ModelType::mult_vae, {}, 5, 0.0}},
        NetworkCase{"vae_features", {ModelType::mult_vae, {9}, 4, 0.3, 0.4}, 6},
        NetworkCase{"vae_flat_features", {ModelType::mult_vae, {}, 5, 0.5}, 6},
        NetworkCase{"dae_features", {ModelType::mult_dae, {9, 7}, 4, 0.3}, 6},
        NetworkCase{"dae", {ModelType::mult_dae, {9}, 4, 0.3}},
        NetworkCase{"dae_flat", {ModelType::mult_dae, {}, 5, 0.3}},
        NetworkCase{"recvae", {ModelType::recvae, {9}, 4, 0.3}, 0, recvae_encoder},
        NetworkCase{"recvae_features", {ModelType::recvae, {9}, 4, 0.3, 0.4}, 6, recvae_encoder},
        NetworkCase{"recvae_decoder", {ModelType::recvae, {9}, 4, 0.3}, 0, recvae_decoder},
        NetworkCase{"vae_weighted", {ModelType::mult_vae, {9}, 4, 0.3}, 0, 0, true},
        NetworkCase{"dae_weighted", {ModelType::mult_dae, {9}, 4, 0.3, 0.4}, 6, 0, true},
        NetworkCase{"recvae_weighted", {ModelType::recvae, {9}, 4, 0.3}, 0, recvae_encoder, true},
        NetworkCase{"recvae_decoder_weighted", {ModelType::recvae, {9}, 4, 0.3}, 0, recvae_decoder, true},
        NetworkCase{"autoencoder_other_weighted", other_autoencoder(), 0, 0, true},
        NetworkCase{"autoencoder", {ModelType::autoencoder, {9}, 4}},
        NetworkCase{"autoencoder_flat", {ModelType::autoencoder, {}, 5}},
        NetworkCase{"autoencoder_features", {ModelType::autoencoder, {9, 7}, 4}, 6},
        NetworkCase{"autoencoder_other", other_autoencoder()}),
    [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace vaecf::models
