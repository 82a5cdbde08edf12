#include <vaecf/math/initialization.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "models/model_fixture.hpp"

namespace vaecf::models {
namespace {

ModelOptions options_of(std::int64_t factors) {
  ModelOptions options;
  options.type = ModelType::elsa;
  options.elsa.factors = factors;
  return options;
}

class ElsaTest : public ::testing::Test {
 protected:
  std::vector<float> weights() const {
    return export_tensor(*device_, model_.layout(), "items/weight", model_.parameters().master());
  }
  void set_weights(std::span<const float> values) { model_.write_rows(0, {0, 5}, values); }

  std::unique_ptr<device::Device> device_ = fp32_device();
  mutable Elsa model_{options_of(2), 5, *device_, 8};
  // Users {0, 1, 4}, {0, 2} and {1, 2, 3}.
  const Csr users_ = {{0, 3, 5, 8}, {0, 1, 4, 0, 2, 1, 2, 3}};
  const std::vector<float> example_ = {1, 0, .5F, .5F, 0, 2, -1, .3F, 1, -.7F};
};

TEST_F(ElsaTest, HasOneTensor) {
  const auto tensors = model_.tensors();
  ASSERT_EQ(tensors.size(), 1U);
  EXPECT_EQ(tensors[0].name, "items/weight");
  EXPECT_EQ(tensors[0].rows, 5);
  EXPECT_EQ(tensors[0].columns, 2);
  EXPECT_TRUE(tensors[0].decays);
}

TEST_F(ElsaTest, InitialWeightsAreXavierUniform) {
  model_.initialize(7);
  const std::vector<float> values = weights();
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i], math::initial_weight(7, 0, i, 5, 2));
  }
}

TEST_F(ElsaTest, StepWritesLossAndGradient) {
  set_weights(example_);
  const WholeBatch whole(*device_, users_, 100, 5);
  auto gradients = device_->make_buffer(model_.layout().size);
  device_->fill(gradients, 7.0F);
  StepTimer timer(*device_, false);
  std::int64_t told = 0;
  const auto sums = losses_of(*device_, {}, [&](device::StepState& step) {
    const device::GradientReady ready = [&](Range range, device::EventHandle) { told += range.size(); };
    model_.forward_backward({*whole.batch}, {model_.parameters(), step, gradients, ready}, 0, timer);
  });
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

// The prediction for user {0, 1, 4}, without items 0, 1 and 4, is 0.13364444 and -2.38139117. Scores are
// divided by the square root of 3.
TEST_F(ElsaTest, RanksOtherItemsByThePrediction) {
  set_weights(example_);
  const auto loaded = model_.load_users({users_.view(), {}, {}, 0});
  std::vector<std::int32_t> items(3);
  std::vector<float> scores(3);
  model_.top_k(*loaded, {0, 1}, History::items, false, 3, items, scores);
  EXPECT_EQ(items, (std::vector<std::int32_t>{2, 3, -1}));
  EXPECT_NEAR(scores[0], 0.13364444 / std::sqrt(3.0), 1e-6);
  EXPECT_NEAR(scores[1], -2.38139117 / std::sqrt(3.0), 1e-6);
  // Weights after an update count at once.
  std::vector<float> opposite = example_;
  for (const std::size_t i : {4, 5, 6, 7}) opposite[i] = -opposite[i];
  set_weights(opposite);
  model_.top_k(*loaded, {0, 1}, History::items, false, 3, items, scores);
  EXPECT_EQ(items, (std::vector<std::int32_t>{3, 2, -1}));
}

TEST_F(ElsaTest, ExcludedItemsRankLast) {
  set_weights(example_);
  const std::vector<std::uint8_t> allowed = {1, 1, 0, 1, 1};
  model_.exclude_items(allowed);
  const auto loaded = model_.load_users({users_.view(), {}, {}, 0});
  std::vector<std::int32_t> items(1);
  std::vector<float> scores(1);
  model_.top_k(*loaded, {0, 1}, History::items, false, 1, items, scores);
  EXPECT_EQ(items[0], 3);
}

}  // namespace
}  // namespace vaecf::models
