#include "models/ease/ease_values.hpp"
#include "run/bad_input_fixture.hpp"

namespace vaecf::training {
namespace {

using EaseInput = BadInput;

// EASE may be a baseline of any model.
TEST_F(EaseInput, NeighborsAreFewerThanItems) {
  const auto neighbors = [](int count) {
    return
        [count](config::TrainingConfig& o) { own_options<models::EaseOptions>(o.model).neighbors = count; };
  };
  expect_refusal("", neighbors(59));
  expect_refusal("model.ease.neighbors: must be below the number of items", neighbors(60));
}

TEST_F(EaseInput, FeatureWeightNeedsFeaturesOfItems) {
  const auto weighted = [](config::TrainingConfig& o) {
    own_options<models::EaseOptions>(o.model).feature_weight = {3.0};
  };
  expect_refusal("model.ease.feature_weight: ", weighted, 2);
  expect_refusal(" has no features of items; set data.prepare.item_features", weighted);
}

}  // namespace
}  // namespace vaecf::training
