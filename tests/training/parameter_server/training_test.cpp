#include <atomic>
#include <chrono>
#include <thread>

#include "checkpoint/resume_fixture.hpp"
#include "support/thread_communicator.hpp"
#include "training/multi_rank_fixture.hpp"
#include "training/parameter_server/server.hpp"

namespace vaecf::training {
namespace {

class ParameterServer : public MultiRankTest {
 protected:
  RankResults run_served(int workers, int servers) {
    return run_as({workers + servers, 1, replicated, servers});
  }

  /// Trains with one server; `work(rank, trainer, step)` runs a step on each rank.
  template <class Work>
  Staleness run_asynchronously(int workers, std::int64_t steps, Work work) {
    options_.distributed.strategy = comm::StrategyKind::parameter_server;
    options_.distributed.updates = comm::ServerUpdates::asynchronous;
    return of_ranks(workers + 1, [&](const run::Run& run) {
      Trainer trainer(run, run.options, run.dataset, 0);
      trainer.start_epoch(0);
      for (std::int64_t t = 0; t < steps; ++t) work(run.communicator.rank(), trainer, t);
      return trainer.take_staleness().value();
    })[0];
  }
};

// The curve of one rank: curve_test.cpp. Every server sums over the same workers in the same order.
TEST_F(ParameterServer, RepeatedRunsAndAnyNumberOfServersAreBitwiseEqual) {
  for (const auto wire : wires) {
    options_.distributed.comm_dtype = wire;
    const RankResults first = run_served(2, 2);
    for (const int servers : {1, 2, 3}) {
      if (wire == comm::CommDtype::bf16 && servers != 2) continue;
      const RankResults again = run_served(2, servers);
      EXPECT_EQ(first.masters[0], again.masters[0]) << to_string(wire) << servers;
      EXPECT_EQ(first.moments[0], again.moments[0]) << to_string(wire) << servers;
    }
  }
}

TEST_F(ParameterServer, ReportedBytesEqualThoseSent) {
  options_.distributed.strategy = comm::StrategyKind::parameter_server;
  options_.distributed.servers = 2;
  for (const auto updates : {comm::ServerUpdates::synchronous, comm::ServerUpdates::asynchronous}) {
    for (const auto wire : wires) {
      SCOPED_TRACE(::testing::Message() << to_string(updates) << " " << to_string(wire));
      options_.distributed.updates = updates;
      options_.distributed.comm_dtype = wire;
      std::atomic<std::int64_t> total = 0;
      double reported = 0.0;
      on_ranks(5, [&](const run::Run& run) {
        Trainer trainer(run, run.options, run.dataset, 0);
        trainer.start_epoch(0);
        for (std::int64_t t = 0; t < 3; ++t) trainer.step(t);
        const auto& messages = dynamic_cast<const comm::MessageBytes&>(run.communicator);
        const CommVolume bytes = trainer.facts().comm_volume;
        const double out = trainer.facts().is_worker ? bytes.worker_out : bytes.server_out;
        const double in = trainer.facts().is_worker ? bytes.worker_in : bytes.server_in;
        EXPECT_EQ(static_cast<double>(messages.sent), 3 * out);
        EXPECT_EQ(static_cast<double>(messages.received), 3 * in);
        total += messages.sent;
        if (run.communicator.rank() == 0) reported = bytes.total;
      });
      EXPECT_EQ(static_cast<double>(total), 3 * reported);
    }
  }
}

// The slow worker takes its first step only after the fast one has reached the bound. Some time later the
// fast one must still be there.
TEST_F(ParameterServer, LeadOfTheFastestWorkerIsBounded) {
  for (const std::int64_t staleness : {0, 1, 3}) {
    SCOPED_TRACE(staleness);
    options_.distributed.staleness = staleness;
    std::atomic<std::int64_t> fast = 0;  // number of steps with weights received
    const Staleness seen = run_asynchronously(2, 6, [&](int rank, Trainer& trainer, std::int64_t t) {
      if (rank == 1 && t == 0) {
        while (fast < staleness) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        EXPECT_EQ(fast, staleness);
      }
      trainer.step(t);
      if (rank == 0) ++fast;
    });
    EXPECT_EQ(seen.max_lead, staleness);
    EXPECT_EQ(seen.updates, 12);
    EXPECT_LE(seen.max_age, 2 * staleness + 1);
    EXPECT_GE(seen.max_age, staleness);
  }
}

TEST_F(ParameterServer, AsynchronousRanksEndWithTheSameWeights) {
  options_.distributed.updates = comm::ServerUpdates::asynchronous;
  for (const auto wire : wires) {
    options_.distributed.comm_dtype = wire;
    const RankResults served = run_served(3, 2);
    expect_same_on_all_ranks(served);
  }
}

// With one worker, every update is that of a step, without staleness.
TEST_F(ParameterServer, AsynchronousWithOneWorkerIsSynchronous) {
  options_.train.clip_gradient_norm = 0.05;
  const RankResults synchronous = run_served(1, 2);
  options_.distributed.updates = comm::ServerUpdates::asynchronous;
  const RankResults asynchronous = run_served(1, 2);
  EXPECT_LE(difference(synchronous.masters[0], asynchronous.masters[0]).relative, 1e-6);
}

TEST_F(ParameterServer, AsynchronousTrainingLearns) {
  options_.data.file = make("more.h5", {.users = 400, .items = 100, .tastes = 10, .likes = 8, .test = 100});
  set({"train.epochs=25", "train.batch_size=40", "train.optimizer.learning_rate=0.01",
       "distributed.strategy=parameter_server", "distributed.parameter_server.updates=asynchronous",
       "distributed.parameter_server.servers=2"});
  on_ranks(5, [&](const run::Run& run) {
    train(run);
    const run::TestResult result = test(run, run_folder().best());
    const double popular = result.baselines.at(0).result.metrics.at("ndcg@10").mean;
    EXPECT_GT(result.model.metrics.at("ndcg@10").mean, 2 * popular);
    EXPECT_GT(popular, 0.0);
  });
  expect_in(log_text(), {"\"updates\":30,", "\"staleness\":", "\"server_wire_in_bytes\":"});
}

class ServedResume : public Resume {
 protected:
  void serve(comm::ServerUpdates updates, int servers) {
    options_.distributed.strategy = comm::StrategyKind::parameter_server;
    options_.distributed.updates = updates;
    options_.distributed.servers = servers;
  }
};

TEST_F(ServedResume, SynchronousIsBitwiseEqualToAnUninterruptedRun) {
  serve(comm::ServerUpdates::synchronous, 2);
  for (const auto wire : wires) {
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

// Without a first moment, the size of an update by Adam grows with the number of updates before it, of which
// there is one per worker and step. The order in which gradients arrive has little effect.
TEST_F(ServedResume, AsynchronousUpdatesAreCountedForAllWorkers) {
  serve(comm::ServerUpdates::asynchronous, 1);
  options_.distributed.staleness = 0;
  options_.optimizer.beta1 = 0.0;
  run(3, "whole");
  const Tensors before = tensors_in(checkpoints("whole") + "/step-00000016.h5");
  resume_copy(3, "step-00000016.h5");
  const auto change_in = [&](const std::string& name) {
    double squares = 0.0;
    for (const auto& [tensor, values] : tensors_in(checkpoints(name) + "/epoch-0003.h5")) {
      if (!tensor.starts_with("weights/")) continue;
      for (std::size_t i = 0; i < values.size(); ++i)
        squares += std::pow(values[i] - before.at(tensor)[i], 2);
    }
    return std::sqrt(squares);
  };
  const double expected = change_in("whole");
  EXPECT_NEAR(change_in("again"), expected, 0.1 * expected);
}

// Checkpoints do not depend on the strategy, so a run may change it.
TEST_F(ServedResume, StrategyMayChange) {
  run(2, "whole");
  const Tensors whole = tensors_in(checkpoints("whole") + "/epoch-0003.h5");
  for (const bool served_first : {true, false}) {
    SCOPED_TRACE(served_first);
    std::filesystem::remove_all(folder("again"));
    options_.train.epochs = 1;
    options_.distributed.strategy =
        served_first ? comm::StrategyKind::parameter_server : comm::StrategyKind::allreduce;
    run(3, "again");
    options_.train.epochs = 3;
    options_.distributed.strategy =
        served_first ? comm::StrategyKind::allreduce : comm::StrategyKind::parameter_server;
    run(3, "again", "auto");
    const Difference apart = difference(whole, tensors_in(checkpoints("again") + "/epoch-0003.h5"));
    EXPECT_LE(apart.relative, 1e-4);  // for moments; the bound for weights is smaller
    EXPECT_LE(apart.largest, 0.1 * options_.optimizer.learning_rate);
  }
}

using Workers = std::vector<int>;

TEST(StalenessController, NoWorkerExceedsTheBound) {
  StalenessController controller(3, 2);
  controller.start(10);
  for (int step = 0; step < 2; ++step) {
    controller.on_push(1);
    EXPECT_EQ(controller.release_ready(), Workers{1}) << step;
  }
  controller.on_push(1);  // three steps ahead of the others
  EXPECT_EQ(controller.release_ready(), Workers{});
  controller.on_push(0);
  EXPECT_EQ(controller.release_ready(), Workers{0});
  EXPECT_EQ(controller.min_step(), 10);
  controller.on_push(2);
  EXPECT_EQ(controller.release_ready(), (Workers{1, 2}));
  EXPECT_EQ(controller.min_step(), 11);
  EXPECT_EQ(controller.step(1), 13);
  EXPECT_EQ(controller.take_max_lead(), 2);
  EXPECT_EQ(controller.take_max_lead(), 0);
}

// With any order of arrival, the bound holds and all workers finish.
TEST(StalenessController, AnyOrderOfArrivalTerminates) {
  std::mt19937 random(5);
  for (const std::int64_t staleness : {0, 1, 3}) {
    StalenessController controller(4, staleness);
    controller.start(0);
    std::vector<bool> computes(4, true);
    for (int pushes = 0; pushes < 4 * 50; ++pushes) {
      Workers ready;
      for (int w = 0; w < 4; ++w) {
        if (computes[static_cast<std::size_t>(w)] && controller.step(w) < 50) ready.push_back(w);
      }
      ASSERT_FALSE(ready.empty()) << "all workers wait";
      const int worker = ready[random() % ready.size()];
      ASSERT_LE(controller.step(worker) - controller.min_step(), staleness);
      controller.on_push(worker);
      computes[static_cast<std::size_t>(worker)] = false;
      for (const int w : controller.release_ready()) computes[static_cast<std::size_t>(w)] = true;
    }
    EXPECT_EQ(controller.min_step(), 50);
    EXPECT_EQ(controller.take_max_lead(), staleness);
  }
}

}  // namespace
}  // namespace vaecf::training
