#include <vaecf/checkpoint/training_state.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

namespace vaecf::checkpoint {
namespace {

TEST(TrainingState, FirstOfEqualEpochsIsBestAndLaterOnesCountAsWorse) {
  // Of popularity, the smallest value is the best.
  for (const auto& [select, sign] : {std::pair{"ndcg@10", 1.0}, {"mean_popularity@5", -1.0}}) {
    SCOPED_TRACE(select);
    TrainingState state;
    state.select = select;
    const auto better = [&](double metric) {
      ++state.epoch;
      return state.update_best(metric);
    };
    EXPECT_TRUE(better(0.0));
    EXPECT_TRUE(better(sign * 0.5));
    EXPECT_FALSE(better(sign * 0.5));
    EXPECT_EQ(state.validations_since_best, 1);
    EXPECT_TRUE(better(sign * 0.6));
    EXPECT_EQ(state.validations_since_best, 0);
    EXPECT_FALSE(better(sign * 0.1));
    EXPECT_FALSE(better(NAN));
    EXPECT_EQ(state.best_epoch, 4);
    EXPECT_EQ(state.best_metric, sign * 0.6);
    EXPECT_EQ(state.validations_since_best, 2);
  }
}

}  // namespace
}  // namespace vaecf::checkpoint
