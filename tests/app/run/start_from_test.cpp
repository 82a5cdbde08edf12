#include "app/process_fixture.hpp"

#include <gtest/gtest.h>

namespace vaecf::app {
namespace {

using StartFrom = TrainedRun;

const std::string best = "runs/small/checkpoints/best.h5";

TEST_F(StartFrom, ANewRunHasTheWeightsOfTheCheckpoint) {
  workspace.succeed("synthesize more.h5 --users 150 --items 70 --interactions-per-user 12 --quiet");
  const Result more = workspace.succeed(
      "small.yaml --train --start-from " + best + " --set data.file=more.h5 --set name=more", 2);
  expect_in(more.err, {"starting from " + best + ": weights of 60 items; 10 items are new, 0 are gone"});
  EXPECT_EQ(count(more.err, "starting from"), 1) << more.err;
  const Result back =
      workspace.succeed("small.yaml --train --start-from runs/more/checkpoints/best.h5 --set name=back", 2);
  expect_in(back.err, {"weights of 60 items; 0 items are new, 10 are gone"});
  // The checkpoint may be in the folder of the new run, from which it is moved.
  const std::string first = workspace.read(best);
  const Result again = workspace.succeed("small.yaml --train --start-from " + best, 2);
  expect_in(again.err, {"starting from runs/small.1/checkpoints/best.h5: weights of 60 items; 0 items"});
  EXPECT_EQ(workspace.read("runs/small.1/checkpoints/best.h5"), first);
  expect_in(workspace.succeed("small.yaml --train --start-from runs/small.1/checkpoints/best.h5").err,
            {"which was moved to runs/small.2\n", "starting from runs/small.1/checkpoints/best.h5: "});
}

TEST_F(StartFrom, InvalidInputIsRefusedOnAllRanksBeforeAnyWork) {
  const std::string start = "small.yaml --train --set name=new --start-from ";
  for (const auto& [arguments, message] : std::vector<std::pair<std::string, std::string>>{
           {"none.h5", "none.h5"},
           {"data.h5", "data.h5"},
           {best + " --set model.latent=9", "must have shape"},
           {best + " --set model.type=mult_dae", "a model of type mult_vae, but model.type is mult_dae"},
           {best + " --set model.type=item_knn", "nothing is to be started from"}}) {
    expect_refused(workspace.program(start + arguments), message);
  }
  expect_refused(workspace.ranks(2, start + best + " --set model.latent=9"), "must have shape");
  EXPECT_FALSE(workspace.exists("runs/new/metrics.jsonl"));
  EXPECT_FALSE(workspace.exists("runs/new/checkpoints/best.h5"));
}

}  // namespace
}  // namespace vaecf::app
