#include <gtest/gtest.h>

#include <ostream>
#include <random>

#include "model/model_fixture.hpp"

namespace vaecf::model {
namespace {

struct NetworkCase {
  const char* name;
  ModelOptions options;
  std::int64_t features = 0;
  friend std::ostream& operator<<(std::ostream& stream, const NetworkCase& n) { return stream << n.name; }
};

class Gradient : public ::testing::TestWithParam<NetworkCase> {};

const Csr users = {{0, 3, 3, 8, 9, 14}, {0, 4, 9, 1, 2, 3, 7, 12, 5, 0, 6, 8, 10, 11}};
constexpr std::int64_t items = 13;
// One user has these alone, one has none.
const Csr known_features = {{0, 3, 5, 5, 6, 10}, {0, 2, 4, 1, 3, 5, 0, 1, 2, 4}};
constexpr float beta = 0.3F;
const backend::StepNumbers numbers = {.seed = 77, .step = 4, .beta = beta, .rule = {}};

backend::LossSums plain_loss(backend::Backend& backend, Network& model, const ModelInput& batch) {
  return losses_of(backend, numbers, [&](backend::StepState& step) { model.loss(batch, step); });
}

/// The loss along w + s * direction for one tensor, by the road without gradients.
class Line {
 public:
  Line(backend::Backend& backend, Network& model, const ModelInput& batch, const std::string& tensor,
       std::vector<float> direction)
      : backend_(backend),
        model_(model),
        batch_(batch),
        tensor_(tensor),
        start_(export_tensor(backend, model.layout(), tensor, model.parameters().master())),
        direction_(std::move(direction)) {}

  double loss(double s) {
    move(s);
    const backend::LossSums sums = plain_loss(backend_, model_, batch_);
    move(0.0);
    return sums.nll + beta * sums.kl;
  }

  /// Fourth-order central difference at 0. Losses here are about 50 and carry fp32 noise of some 1e-6 of
  /// that, so a step of 0.02 leaves errors well under 1e-2 in a slope of order 1.
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
    import_tensor(backend_, model_.layout(), tensor_, values, model_.parameters().master());
    backend_.weights_changed(model_.parameters());
  }

  backend::Backend& backend_;
  Network& model_;
  const ModelInput& batch_;
  std::string tensor_;
  std::vector<float> start_;
  std::vector<float> direction_;
};

TEST_P(Gradient, EqualsFiniteDifferencesForEveryTensor) {
  const auto backend = fp32_backend();
  Network model(GetParam().options, {items, GetParam().features}, *backend, users.rows());
  model.initialise(11);
  const WholeBatch whole(*backend, users, 100, items);
  const WholeBatch beside(*backend, known_features, 100, 6);
  const ModelInput input(*whole.batch, GetParam().features > 0 ? beside.batch.get() : nullptr);
  const auto gradients = backend->make_buffer(model.layout().size);
  StepClock clock(*backend, false);
  std::int64_t told = 0;
  const backend::LossSums sums = losses_of(*backend, numbers, [&](backend::StepState& step) {
    model.forward_backward(
        input, step, *gradients, [&](Range range, backend::Completion) { told += range.size(); }, clock);
  });
  EXPECT_EQ(told, model.layout().size) << "every flat element is reported once";
  const backend::LossSums plain = plain_loss(*backend, model, input);
  EXPECT_NEAR(plain.nll, sums.nll, 1e-4);
  EXPECT_NEAR(plain.kl, sums.kl, 1e-6);
  EXPECT_EQ(sums.kl > 0.0, GetParam().options.type == "mult_vae");

  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const backend::TensorLayout& tensor : model.layout().tensors) {
    const std::string& name = tensor.spec.name;
    const auto gradient = export_tensor(*backend, model.layout(), name, *gradients);
    const double size = norm(gradient);
    ASSERT_GT(size, 1e-3) << name;
    // Along the gradient itself the slope is its norm, and along others the projection.
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
      const double slope = Line(*backend, model, input, name, direction).slope();
      EXPECT_NEAR(slope, expected, 2e-3 * std::max(1.0, size)) << name << ", gradient norm " << size;
    }
  }
}

TEST_P(Gradient, AnEmptyBatchGivesZeros) {
  const auto backend = fp32_backend();
  Network model(GetParam().options, {items, GetParam().features}, *backend, 0);
  model.initialise(11);
  const Csr nobody;
  const WholeBatch whole(*backend, nobody, 0, items);
  const ModelInput input(*whole.batch, GetParam().features > 0 ? whole.batch.get() : nullptr);
  const auto gradients = backend->make_buffer(model.layout().size);
  backend->fill(*gradients, 7.0F);
  StepClock clock(*backend, false);
  std::int64_t told = 0;
  const backend::LossSums sums = losses_of(*backend, numbers, [&](backend::StepState& step) {
    model.forward_backward(
        input, step, *gradients, [&](Range range, backend::Completion) { told += range.size(); }, clock);
  });
  EXPECT_EQ(told, model.layout().size);
  EXPECT_EQ(sums.nll, 0.0);
  EXPECT_EQ(sums.kl, 0.0);
  for (const backend::TensorLayout& tensor : model.layout().tensors) {
    EXPECT_EQ(norm(export_tensor(*backend, model.layout(), tensor.spec.name, *gradients)), 0.0)
        << tensor.spec.name;
  }
}

TEST(ModelFeatures, AreTakenWhereTheModelKnowsThem) {
  const auto backend = fp32_backend();
  const WholeBatch whole(*backend, users, 100, items);
  const WholeBatch beside(*backend, known_features, 100, 6);
  Network with({"mult_vae", {9}, 4, 0.3}, {items, 6}, *backend, users.rows());
  Network without({"mult_vae", {9}, 4, 0.3}, items, *backend, users.rows());
  EXPECT_THROW(with.hidden_for_scoring(*whole.batch), std::logic_error);
  EXPECT_THROW(without.hidden_for_scoring({*whole.batch, beside.batch.get()}), std::logic_error);
}

INSTANTIATE_TEST_SUITE_P(Networks, Gradient,
                         ::testing::Values(NetworkCase{"vae", {"mult_vae", {9}, 4, 0.3}},
                                           NetworkCase{"vae_deep", {"mult_vae", {9, 7, 6}, 4, 0.5}},
                                           NetworkCase{"vae_flat", {"mult_vae", {}, 5, 0.0}},
                                           NetworkCase{"vae_features", {"mult_vae", {9}, 4, 0.3, 0.4}, 6},
                                           NetworkCase{"vae_flat_features", {"mult_vae", {}, 5, 0.5}, 6},
                                           NetworkCase{"dae_features", {"mult_dae", {9, 7}, 4, 0.3}, 6},
                                           NetworkCase{"dae", {"mult_dae", {9}, 4, 0.3}},
                                           NetworkCase{"dae_flat", {"mult_dae", {}, 5, 0.3}}),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace vaecf::model
