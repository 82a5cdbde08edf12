#include <vaecf/train/session.hpp>

#include <gtest/gtest.h>

#include "support/thread_communicator.hpp"

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

}  // namespace
}  // namespace vaecf::train
