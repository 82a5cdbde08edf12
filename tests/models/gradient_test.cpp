#include <gtest/gtest.h>

#include <ostream>
#include <random>

#include "models/model_fixture.hpp"

namespace vaecf::models {
namespace {

struct NetworkCase {
  const char* name;
  ModelOptions options;
  std::int64_t features = 0;
  int parameter_group = 0;
  friend std::ostream& operator<<(std::ostream& stream, const NetworkCase& n) { return stream << n.name; }
};

class Gradient : public ::testing::TestWithParam<NetworkCase> {};

const Csr users = {{0, 3, 3, 8, 9, 14}, {0, 4, 9, 1, 2, 3, 7, 12, 5, 0, 6, 8, 10, 11}};
constexpr std::int64_t items = 13;
// One user has only features, another has none.
const Csr known_features = {{0, 3, 5, 5, 6, 10}, {0, 2, 4, 1, 3, 5, 0, 1, 2, 4}};
constexpr float beta = 0.3F;
const device::StepParams params = {.seed = 77, .step = 4, .beta = beta, .rule = {}};

/// Makes a model of `options` with initial weights, and other weights as its prior, if it has one.
std::unique_ptr<TrainableModel> make_initial(const ModelOptions& options, InputDims inputs,
                                             device::Device& device, std::int64_t max_users) {
  auto model = make_model(options, inputs, device, max_users);
  model->initialize(3);
  model->start_epoch();
  model->initialize(11);
  return model;
}

device::LossSums loss_and_gradient(device::Device& device, TrainableModel& model, int parameter_group,
                                   const NetworkInput& batch, device::Buffer& gradients,
                                   const device::GradientReady& ready = {}) {
  StepTimer timer(device, false);
  return losses_of(device, params, [&](device::StepState& step) {
    model.forward_backward(batch, {model.parameters(), step, gradients, ready}, parameter_group, timer);
  });
}

/// Returns an autoencoder with the other choices.
ModelOptions other_autoencoder() {
  ModelOptions options{ModelType::autoencoder, {9}, 4};
  options.autoencoder = {device::Activation::tanh, device::Loss::multinomial, 0.5};
  return options;
}

/// The loss as a function of s, with w + s * direction as weights of one tensor.
class Line {
 public:
  Line(device::Device& device, TrainableModel& model, int parameter_group, const NetworkInput& batch,
       const std::string& tensor, std::vector<float> direction)
      : device_(device),
        model_(model),
        parameter_group_(parameter_group),
        batch_(batch),
        tensor_(tensor),
        start_(export_tensor(device, model.layout(), tensor, model.parameters().master())),
        direction_(std::move(direction)),
        gradients_(device.make_buffer(model.layout().size)) {}

  double loss(double s) {
    move(s);
    const device::LossSums sums = loss_and_gradient(device_, model_, parameter_group_, batch_, gradients_);
    move(0.0);
    return sums.nll + sums.weighted_kl;
  }

  /// Fourth-order central difference at 0. Losses are about 50 with fp32 noise of about 1e-6 of that, so a
  /// step of 0.02 leaves errors well below 1e-2 in a slope of order 1.
  double slope() {
    constexpr double h = 0.02;
    return (8.0 * (loss(h) - loss(-h)) - (loss(2 * h) - loss(-2 * h))) / (12.0 * h);
  }

 private:
  void move(double s) {
    std::vector<float> values(start_.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = start_[i] + static_cast<float>(s) * direction_[i];
    }
    import_tensor(device_, model_.layout(), tensor_, values, model_.parameters().master());
    device_.refresh_copies(model_.parameters(), {0, model_.parameters().layout().size});
  }

  device::Device& device_;
  TrainableModel& model_;
  int parameter_group_;
  const NetworkInput& batch_;
  std::string tensor_;
  std::vector<float> start_;
  std::vector<float> direction_;
  device::Buffer gradients_;
};

TEST_P(Gradient, EqualsFiniteDifferencesForEveryTensor) {
  const auto device = fp32_device();
  const int parameter_group = GetParam().parameter_group;
  const NetworkShape shape = network_shape(GetParam().options, {items, GetParam().features});
  const auto made = make_initial(GetParam().options, {items, GetParam().features}, *device, users.rows());
  TrainableModel& model = *made;
  const WholeBatch whole(*device, users, 100, items);
  const WholeBatch beside(*device, known_features, 100, 6);
  const NetworkInput input{*whole.batch, GetParam().features > 0 ? beside.batch.get() : nullptr};
  auto gradients = device->make_buffer(model.layout().size);
  std::int64_t told = 0;
  const device::LossSums sums =
      loss_and_gradient(*device, model, parameter_group, input, gradients,
                        [&](Range range, device::EventHandle) { told += range.size(); });
  const Range updated = model.parameter_groups()[static_cast<std::size_t>(parameter_group)];
  EXPECT_EQ(told, updated.size()) << "every flat element is reported once";
  EXPECT_EQ(sums.kl != 0.0, shape.variational);

  // Mean squared errors are below 1, other losses about 50.
  const double scale = shape.loss == device::Loss::squared ? 0.01 : 1.0;
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  const Range tensors = model.layout().tensors_in(updated);
  for (std::int64_t t = tensors.begin; t < tensors.end; ++t) {
    const std::string& name = model.layout().tensors[static_cast<std::size_t>(t)].spec.name;
    const auto gradient = export_tensor(*device, model.layout(), name, gradients);
    const double size = norm(gradient);
    ASSERT_GT(size, 1e-3 * scale) << name;
    // Along the gradient, the slope is its norm; along other directions, the projection.
    std::vector<std::vector<float>> directions(4, std::vector<float>(gradient.size()));
    for (std::size_t d = 0; d < directions.size(); ++d) {
      for (std::size_t i = 0; i < gradient.size(); ++i)
        directions[d][i] = d == 0 ? gradient[i] : normal(random);
      const double length = norm(directions[d]);
      for (float& value : directions[d]) value = static_cast<float>(value / length);
    }
    for (const std::vector<float>& direction : directions) {
      double expected = 0.0;
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        expected += static_cast<double>(gradient[i]) * direction[i];
      }
      const double slope = Line(*device, model, parameter_group, input, name, direction).slope();
      EXPECT_NEAR(slope, expected, 2e-3 * std::max(scale, size)) << name << ", gradient norm " << size;
    }
  }
}

TEST_P(Gradient, EmptyBatchGivesZeroGradients) {
  const auto device = fp32_device();
  const int parameter_group = GetParam().parameter_group;
  const auto made = make_initial(GetParam().options, {items, GetParam().features}, *device, 0);
  TrainableModel& model = *made;
  const Csr nobody;
  const WholeBatch whole(*device, nobody, 0, items);
  const NetworkInput input{*whole.batch, GetParam().features > 0 ? whole.batch.get() : nullptr};
  auto gradients = device->make_buffer(model.layout().size);
  device->fill(gradients, 7.0F);
  std::int64_t told = 0;
  const device::LossSums sums =
      loss_and_gradient(*device, model, parameter_group, input, gradients,
                        [&](Range range, device::EventHandle) { told += range.size(); });
  const Range updated = model.parameter_groups()[static_cast<std::size_t>(parameter_group)];
  EXPECT_EQ(told, updated.size());
  EXPECT_EQ(sums.nll, 0.0);
  EXPECT_EQ(sums.kl, 0.0);
  const Range tensors = model.layout().tensors_in(updated);
  for (std::int64_t t = tensors.begin; t < tensors.end; ++t) {
    const std::string& name = model.layout().tensors[static_cast<std::size_t>(t)].spec.name;
    EXPECT_EQ(norm(export_tensor(*device, model.layout(), name, gradients)), 0.0) << name;
  }
}

TEST(ModelFeatures, MustMatchTheModel) {
  const auto device = fp32_device();
  const WholeBatch whole(*device, users, 100, items);
  const WholeBatch beside(*device, known_features, 100, 6);
  Network with({ModelType::mult_vae, {9}, 4, 0.3}, {items, 6}, *device, users.rows());
  Network without({ModelType::mult_vae, {9}, 4, 0.3}, items, *device, users.rows());
  EXPECT_THROW(with.forward_for_scoring({*whole.batch}), std::logic_error);
  EXPECT_THROW(without.forward_for_scoring({*whole.batch, beside.batch.get()}), std::logic_error);
}

INSTANTIATE_TEST_SUITE_P(
    Networks, Gradient,
    ::testing::Values(NetworkCase{"vae", {ModelType::mult_vae, {9}, 4, 0.3}},
                      NetworkCase{"vae_deep", {ModelType::mult_vae, {9, 7, 6}, 4, 0.5}},
                      NetworkCase{"vae_flat", {ModelType::mult_vae, {}, 5, 0.0}},
                      NetworkCase{"vae_features", {ModelType::mult_vae, {9}, 4, 0.3, 0.4}, 6},
                      NetworkCase{"vae_flat_features", {ModelType::mult_vae, {}, 5, 0.5}, 6},
                      NetworkCase{"dae_features", {ModelType::mult_dae, {9, 7}, 4, 0.3}, 6},
                      NetworkCase{"dae", {ModelType::mult_dae, {9}, 4, 0.3}},
                      NetworkCase{"dae_flat", {ModelType::mult_dae, {}, 5, 0.3}},
                      NetworkCase{"recvae", {ModelType::recvae, {9}, 4, 0.3}, 0, recvae_encoder},
                      NetworkCase{
                          "recvae_features", {ModelType::recvae, {9}, 4, 0.3, 0.4}, 6, recvae_encoder},
                      NetworkCase{"recvae_decoder", {ModelType::recvae, {9}, 4, 0.3}, 0, recvae_decoder},
                      NetworkCase{"autoencoder", {ModelType::autoencoder, {9}, 4}},
                      NetworkCase{"autoencoder_flat", {ModelType::autoencoder, {}, 5}},
                      NetworkCase{"autoencoder_features", {ModelType::autoencoder, {9, 7}, 4}, 6},
                      NetworkCase{"autoencoder_other", other_autoencoder()}),
    [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace vaecf::models
