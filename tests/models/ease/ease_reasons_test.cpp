#include "run/reasons_fixture.hpp"

namespace vaecf::training {
namespace {

using EaseReasons = RecommendReasons;

TEST_F(EaseReasons, AreWeightsWithFactorsOfColumnsAndOfNeighbors) {
  options_.validation.baselines = {};
  for (const std::vector<std::string>& keys : std::vector<std::vector<std::string>>{
           {"model.type=ease", "model.ease={l2: [20], user_power: [0.5], dropout: [0.3], relax: [0.4]}"},
           {"model.ease.neighbors=9"}}) {
    SCOPED_TRACE(keys.back());
    set(keys);
    expect_weights_as_reasons();
  }
}

}  // namespace
}  // namespace vaecf::training
