#include "training/checkpoint/resume_fixture.hpp"

namespace vaecf::training {
namespace {

class ServedResume : public Resume {
 protected:
  void serve(comm::ServerUpdates updates, int servers) {
    options_.distributed.strategy = comm::Strategy::parameter_server;
    options_.distributed.updates = updates;
    options_.distributed.servers = servers;
  }
};

TEST_F(ServedResume, SynchronousIsBitwiseEqualToAnUninterruptedRun) {
  serve(comm::ServerUpdates::synchronous, 2);
  for (const auto wire : {comm::CommDtype::fp32, comm::CommDtype::bf16}) {
    SCOPED_TRACE(to_string(wire));
    options_.distributed.comm_dtype = wire;
    expect_same_from_everywhere(4);
    std::filesystem::remove_all(folder("whole"));
  }
}

TEST_F(ServedResume, StoppedRunCanBeResumed) {
  for (const auto updates : {comm::ServerUpdates::synchronous, comm::ServerUpdates::asynchronous}) {
    SCOPED_TRACE(to_string(updates));
    serve(updates, 1);
    options_.distributed.staleness = 1;
    std::filesystem::remove_all(folder("again"));
    EXPECT_TRUE(run(3, "again", "auto", 2).stopped);  // the last rank, a server, requests it
    const run::TrainResult result = run(3, "again", "auto");
    EXPECT_FALSE(result.stopped);
    EXPECT_EQ(result.steps, 18);
    EXPECT_EQ(count("again", "epoch"), 3);
    EXPECT_EQ(count("again", "end"), 1);
  }
}

// Checkpoints do not depend on the strategy, so a run may change it.
TEST_F(ServedResume, StrategyMayChange) {
  run(2, "whole");
  const Tensors whole = tensors_of(checkpoints("whole") + "/epoch-0003.h5");
  for (const bool served_first : {true, false}) {
    SCOPED_TRACE(served_first);
    std::filesystem::remove_all(folder("again"));
    options_.train.epochs = 1;
    options_.distributed.strategy =
        served_first ? comm::Strategy::parameter_server : comm::Strategy::allreduce;
    run(3, "again");
    options_.train.epochs = 3;
    options_.distributed.strategy =
        served_first ? comm::Strategy::allreduce : comm::Strategy::parameter_server;
    run(3, "again", "auto");
    const Difference apart = difference(whole, tensors_of(checkpoints("again") + "/epoch-0003.h5"));
    EXPECT_LE(apart.relative, 1e-4);  // for moments; the bound for weights is smaller
    EXPECT_LE(apart.largest, 0.1 * options_.optimizer.learning_rate);
  }
}

}  // namespace
}  // namespace vaecf::training
