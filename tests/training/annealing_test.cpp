#include <vaecf/training/trainer.hpp>

#include <gtest/gtest.h>

namespace vaecf::training {
namespace {

TEST(Annealing, FollowsPublishedSchedules) {
  struct Recipe {
    double steps, cap;
    std::int64_t per_epoch, cap_at, cap_epoch;
    double slope;
  };
  for (const Recipe& r :
       {Recipe{200000, 0.2, 234, 40000, 171, 0.00117}, Recipe{200000, 0.2, 767, 40000, 53, 0.0038},
        Recipe{200000, 0.2, 943, 40000, 43, 0.0047}, Recipe{15000, 0.1, 4, 1500, 376, 0.00027},
        Recipe{1000, 0.2, 2, 200, 101, 0.0020}}) {
    const Annealing a({r.cap, r.steps, 0, 0}, 0.0, r.per_epoch);
    EXPECT_EQ(a.beta(0, 0), 0.0);
    EXPECT_LT(a.beta(r.cap_at - 1, 0), r.cap);
    EXPECT_DOUBLE_EQ(a.beta(r.cap_at, 0), r.cap);
    EXPECT_DOUBLE_EQ(a.beta(10 * r.cap_at, 0), r.cap);
    EXPECT_EQ(r.cap_at / r.per_epoch + 1, r.cap_epoch);  // the epoch of that update, from 1
    EXPECT_NEAR(a.beta(r.per_epoch, 0), r.slope, 0.06 * r.slope);
  }
}

TEST(Annealing, DetectsThatTheCapIsNeverReached) {
  const Annealing thesis({0.2, 200000, 0, 0}, 0.0, 8);
  EXPECT_NEAR(thesis.beta(1600, 0), 0.008, 1e-12);
  EXPECT_FALSE(thesis.reaches_cap(1600, 1599 * 14504));
  const Annealing paper({0.2, 200000, 0, 0}, 0.0, 234);
  EXPECT_TRUE(paper.reaches_cap(46800, 200 * 116677 - 177));
  EXPECT_FALSE(paper.reaches_cap(40000, 39999 * 500));
  EXPECT_TRUE(paper.reaches_cap(40001, 40000 * 500));
  const Annealing users({0.2, 0, 0, 1250}, 0.0, 2);
  EXPECT_TRUE(users.reaches_cap(2, 300));
  EXPECT_FALSE(users.reaches_cap(2, 160));
}

TEST(Annealing, SchedulesInUsersAndEpochsFollowTheBatchSize) {
  const Annealing users({0.2, 0, 0, 100e6}, 0.0, 5);
  EXPECT_DOUBLE_EQ(users.beta(1, 10000000), 0.1);
  EXPECT_DOUBLE_EQ(users.beta(1, 20000000), 0.2);
  EXPECT_DOUBLE_EQ(users.beta(1, 90000000), 0.2);
  const double epochs = 200000.0 / 234.0;  // the paper's T
  const Annealing small({0.2, 0, epochs, 0}, 0.0, 234);
  const Annealing large({0.2, 0, epochs, 0}, 0.0, 5);  // batch 24,576: T = 4,274 updates
  EXPECT_DOUBLE_EQ(small.beta(20000, 0), 0.1);
  EXPECT_NEAR(large.beta(427, 0), 427.0 / 4274.0, 1e-4);
  EXPECT_NEAR(small.beta(10 * 234, 0), large.beta(10 * 5, 0), 1e-12);
}

TEST(Annealing, AutomaticTReachesTheCapAfterFourFifthsOfTheEpochs) {
  const AnnealingOptions options;  // cap 0.2
  const double epochs = options.automatic_epochs(50);
  EXPECT_DOUBLE_EQ(epochs, 200.0);
  const Annealing a(options, epochs, 10);
  EXPECT_EQ(a.automatic_epochs(), 200.0);
  EXPECT_LT(a.beta(399, 0), 0.2);
  EXPECT_DOUBLE_EQ(a.beta(400, 0), 0.2);
  EXPECT_DOUBLE_EQ(a.beta(200, 0), 0.1);
  const AnnealingOptions no_cap{.cap = 0.0};
  EXPECT_EQ(Annealing(no_cap, no_cap.automatic_epochs(50), 10).beta(499, 0), 0.0);
  const AnnealingOptions given{.epochs = 30.0};
  EXPECT_EQ(given.automatic_epochs(50), 0.0);
}

}  // namespace
}  // namespace vaecf::training
