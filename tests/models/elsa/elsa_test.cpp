#include "models/elsa/elsa.hpp"

#include <vaecf/math/random.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "models/model_fixture.hpp"

namespace vaecf::models {
namespace {

ModelOptions options_of(std::int64_t factors) {
  ModelOptions options;
  options.type = ModelType::elsa;
  own_options<ElsaOptions>(options).factors = factors;
  return options;
}

class ElsaTest : public ::testing::Test {
 protected:
  void set_weights(std::span<const float> values) { model_.write_rows(0, {0, 5}, values); }

  std::unique_ptr<device::Device> device_ = fp32_device();
  Elsa model_{options_of(2), 5, *device_, 8};
  // Users {0, 1, 4}, {0, 2} and {1, 2, 3}.
  const Csr users_ = {{0, 3, 5, 8}, {0, 1, 4, 0, 2, 1, 2, 3}};
  const std::vector<float> example_ = {1, 0, .5F, .5F, 0, 2, -1, .3F, 1, -.7F};
};

TEST_F(ElsaTest, InitialWeightsOfItsTensorAreXavierUniform) {
  model_.initialize(7);
  ASSERT_EQ(model_.tensors().size(), 1U);
  EXPECT_TRUE(model_.tensors()[0].decays);
  const std::vector<float> values = weights_of(*device_, model_, "items/weight");
  ASSERT_EQ(values.size(), 10U);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i], math::initial_weight(7, 0, i, 5, 2));
  }
}

TEST_F(ElsaTest, StepWritesLossAndGradient) {
  set_weights(example_);
  const WholeBatch whole(*device_, users_, 100, 5);
  auto gradients = device_->make_buffer(model_.layout().size);
  device_->fill(gradients, 7.0F);
  std::int64_t told = 0;
  const auto sums = gradient_step(*device_, model_, {*whole.batch}, gradients, {}, 0,
                                  [&](Range range, device::EventHandle) { told += range.size(); });
  EXPECT_EQ(told, model_.layout().size);
  EXPECT_NEAR(sums.nll, 2.023108449423385, 1e-6);
  EXPECT_EQ(sums.kl, 0.0);
  EXPECT_EQ(sums.users, 3);
  const std::vector<double> expected = {0, -1.01978173, .51209079,  -.51209079, -.42575921,
                                        0, -.33759447,  -1.1253149, -.25662242, -.36660346};
  EXPECT_LE(
      relative_difference(export_tensor(*device_, model_.layout(), "items/weight", gradients), expected),
      1e-6);
}

// Loss, gradient and predictions come from finite differences of the formula in NumPy.
TEST_F(ElsaTest, ValuesOfItemsAreInput) {
  set_weights(example_);
  const Csr rows = {users_.offsets, users_.columns, {1.5F, .25F, 1.25F, .5F, 2.0F, .75F, 1.0F, 3.0F}};
  const WholeBatch whole(*device_, rows, 100, 5);
  auto gradients = device_->make_buffer(model_.layout().size);
  const auto sums = gradient_step(*device_, model_, {*whole.batch}, gradients);
  EXPECT_NEAR(sums.nll, 2.4206289619443107, 1e-6);
  const std::vector<double> expected = {0, -.3883776,  .36423339,  -.36423339, -.12842344,
                                        0, -.19597521, -.65325069, -.10160765, -.14515379};
  EXPECT_LE(
      relative_difference(export_tensor(*device_, model_.layout(), "items/weight", gradients), expected),
      1e-6);
  const auto loaded = model_.load_users({rows.view(), {}, {}, 0});
  const BestItems best(model_, *loaded, 2);
  EXPECT_EQ(best.items, (std::vector<std::int32_t>{2, 3}));
  const double norm = std::sqrt(1.5 * 1.5 + .25 * .25 + 1.25 * 1.25);
  EXPECT_NEAR(best.scores[0], -.54005123 / norm, 1e-6);
  EXPECT_NEAR(best.scores[1], -2.74209571 / norm, 1e-6);
}

// The prediction for user {0, 1, 4}, without items 0, 1 and 4, is 0.13364444 and -2.38139117. Scores are
// divided by the square root of 3.
TEST_F(ElsaTest, RanksOtherItemsByThePrediction) {
  set_weights(example_);
  const auto loaded = model_.load_users({users_.view(), {}, {}, 0});
  const BestItems best(model_, *loaded, 3);
  EXPECT_EQ(best.items, (std::vector<std::int32_t>{2, 3, -1}));
  EXPECT_NEAR(best.scores[0], 0.13364444 / std::sqrt(3.0), 1e-6);
  EXPECT_NEAR(best.scores[1], -2.38139117 / std::sqrt(3.0), 1e-6);
  // Weights after an update count at once.
  std::vector<float> opposite = example_;
  for (const std::size_t i : {4, 5, 6, 7}) opposite[i] = -opposite[i];
  set_weights(opposite);
  EXPECT_EQ(BestItems(model_, *loaded, 3).items, (std::vector<std::int32_t>{3, 2, -1}));
  // Excluded items rank last.
  set_weights(example_);
  model_.restrict_to(std::vector<std::uint8_t>{1, 1, 0, 1, 1});
  EXPECT_EQ(BestItems(model_, *loaded, 1).items[0], 3);
}

}  // namespace
}  // namespace vaecf::models
