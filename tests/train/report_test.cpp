#include <vaecf/train/session.hpp>

#include <gtest/gtest.h>

#include "support/thread_communicator.hpp"
#include "train/overlap.hpp"

namespace vaecf::train {
namespace {

TEST(Tables, TestShowsModelBesidePopularity) {
  TestResult result;
  result.epoch = 12;
  result.model = {10000, 3, {{"ndcg@100", {0.4259, 0.0021}}, {"recall@20", {0.395, 0.0027}}}};
  result.popularity = {10000, 3, {{"ndcg@100", {0.1912, 0.0017}}, {"recall@20", {0.162, 0.0019}}}};
  EXPECT_EQ(to_table(result),
            "test of epoch 12: 10000 users, 3 without a target left out\n"
            "  metric                  model          popularity\n"
            "  ndcg@100     0.4259 +- 0.0021    0.1912 +- 0.0017\n"
            "  recall@20    0.3950 +- 0.0027    0.1620 +- 0.0019\n");
}

TEST(Overlap, TriesBothWaysAndTakesTheFaster) {
  for (const bool overlap_wins : {true, false}) {
    comm::run_ranks(2, [&](comm::Communicator& communicator) {
      OverlapChoice choice("auto", communicator);
      int with = 0;
      int steps = 0;
      for (; !choice.decided() && steps < 100; ++steps) {
        const bool use = choice.use();
        with += use ? 1 : 0;
        // Rank 1 measures the opposite; rank 0's word counts.
        choice.report(use == (overlap_wins == (communicator.rank() == 0)) ? 1.0 : 2.0);
      }
      EXPECT_EQ(choice.use(), overlap_wins);
      EXPECT_EQ(with, 4);
      EXPECT_EQ(steps, 10);
    });
  }
}

TEST(Overlap, IsOffInAWorldOfOne) {
  comm::run_ranks(1, [](comm::Communicator& communicator) {
    for (const char* mode : {"auto", "on", "off"}) {
      const OverlapChoice choice(mode, communicator);
      EXPECT_TRUE(choice.decided());
      EXPECT_FALSE(choice.use());
    }
  });
}

}  // namespace
}  // namespace vaecf::train
