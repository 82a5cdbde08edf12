#include "run/bad_input_fixture.hpp"

namespace vaecf::training {
namespace {

using EaseInput = BadInput;

// EASE may be a baseline of any model.
TEST_F(EaseInput, NeighborsAreFewerThanItems) {
  const auto neighbors = [](int count) {
    return [count](config::TrainingConfig& o) { o.model.ease.neighbors = count; };
  };
  expect_refusal("", neighbors(59));
  expect_refusal("model.ease.neighbors: must be below the number of items", neighbors(60));
}

}  // namespace
}  // namespace vaecf::training
