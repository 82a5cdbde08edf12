// All ranks must capture and replay graphs with collectives together (NCCL). As on a GPU, emulated device
// memory is reallocated when the batches of a rank outgrow it.
#include <vaecf/device/cuda/device.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "support/cuda_emulator/communicator.hpp"
#include "train/engine/engine_of.hpp"
#include "train/evaluate/evaluator.hpp"
#include "train/step/multi_rank_fixture.hpp"

namespace vaecf::train {
namespace {

/// Graphs that run the work again, including collectives, which emulated graphs cannot contain. Their
/// validity is determined by the emulated device.
class Repeating : public cuda::Device {
 public:
  struct Graph {
    std::function<void()> work;
    std::unique_ptr<cuda::Graph> nothing;
  };

  Repeating(const device::BackendOptions& options, std::string& log) : cuda::Device(options, 0), steps(log) {}

  std::unique_ptr<Graph> capture(const std::function<void()>& work) {
    work();
    steps += 'o';
    auto nothing = cuda::Device::capture([] {});
    return nothing ? std::make_unique<Graph>(work, std::move(nothing)) : nullptr;
  }
  bool is_valid(const Graph& graph) const { return cuda::Device::is_valid(*graph.nothing); }
  bool replay(Graph& graph) {
    if (!is_valid(graph)) return false;
    graph.work();
    steps += '>';
    return true;
  }

  std::string& steps;  ///< recorded o, replayed >
};

class CudaEmulatedCapture : public MultiRankTest {
 protected:
  struct Outcome {
    std::string steps;
    Tensors weights;
  };

  /// Returns the outcome of each rank after four epochs, after each of which only the first rank evaluates.
  std::vector<Outcome> train_on(int ranks, Toggle graph) {
    backend_.cuda_graph = graph;
    std::vector<Outcome> all(static_cast<std::size_t>(ranks));
    const auto train = [&](comm::Communicator& communicator) {
      Outcome& outcome = all[static_cast<std::size_t>(communicator.rank())];
      EngineOf<Repeating> engine(std::make_unique<Repeating>(backend_, outcome.steps));
      Log log;
      Progress progress;
      const Run run = run_of({communicator, engine, log, progress});
      Trainer trainer(run, run.engine.facts().evaluation_batch);
      train_epochs(trainer, 4, [&] {
        model::Model& model = trainer.model();
        if (communicator.rank() != 0) return;
        comm::run_ranks(1, [&](comm::Communicator& alone) {
          const Run mine = run_of({alone, engine, log, progress});
          Evaluator(mine, "validation", options_.validation.metrics).evaluate(model);
        });
      });
      outcome.weights = read_all(engine, StateTensor::weights);
    };
    comm::run_ranks(ranks, train, cuda::emulator::thread_device(true));
    return all;
  }
};

// The batch size is not a multiple of the virtual shards, so that a rank's part changes from step to step.
TEST_F(CudaEmulatedCapture, RanksCaptureAndReplayTheSameSteps) {
  options_.data.file = make("more.h5", {.users = 1000, .validation = 400});
  options_.train.batch_size = 40;
  for (const int ranks : {2, 3, 5}) {
    SCOPED_TRACE(ranks);
    const std::vector<Outcome> recorded = train_on(ranks, Toggle::automatic);
    for (const Outcome& rank : recorded) {
      EXPECT_EQ(rank.steps, recorded[0].steps);
      EXPECT_EQ(rank.weights, recorded[0].weights);
    }
    EXPECT_EQ(recorded[0].steps.size(), 4U * 25U);
    EXPECT_GT(std::ranges::count(recorded[0].steps, '>'), 20) << recorded[0].steps;
    EXPECT_EQ(train_on(ranks, Toggle::off)[0].weights, recorded[0].weights);
  }
}

}  // namespace
}  // namespace vaecf::train
