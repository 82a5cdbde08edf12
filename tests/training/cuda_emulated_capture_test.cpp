// All ranks must capture and replay graphs with collectives together (NCCL). As on a GPU, emulated device
// memory is reallocated when the batches of a rank outgrow it.
#include <vaecf/evaluate/evaluator.hpp>

#include <memory>

#include "device/cuda/device.hpp"
#include "support/cuda_emulator/communicator.hpp"
#include "training/multi_rank_fixture.hpp"

namespace vaecf::training {
namespace {

/// Graphs that run the work again, including collectives, which emulated graphs cannot contain. Their
/// validity is determined by the emulated device.
class Repeating : public cuda::Device {
 public:
  struct Repeated : device::Graph {
    std::function<void()> work;
    std::unique_ptr<device::Graph> nothing;
  };

  Repeating(const device::BackendOptions& options, std::string& log) : cuda::Device(options, 0), steps(log) {}

  std::unique_ptr<device::Graph> capture(const std::function<void()>& work) override {
    work();
    steps += 'o';
    auto repeated = std::make_unique<Repeated>();
    repeated->work = work;
    repeated->nothing = cuda::Device::capture([] {});
    if (!repeated->nothing) return nullptr;
    return repeated;
  }
  bool is_valid(const device::Graph& graph) const override {
    return cuda::Device::is_valid(*device::own<Repeated>(graph).nothing);
  }
  bool replay(device::Graph& graph) override {
    if (!is_valid(graph)) return false;
    device::own<Repeated>(graph).work();
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
    std::vector<device::LossSums> losses;  ///< of each epoch
  };

  /// Returns the outcome of each rank after four epochs, after each of which only the first rank evaluates.
  std::vector<Outcome> train_on(int ranks, Toggle graph) {
    backend_.cuda_graph = graph;
    std::vector<Outcome> all(static_cast<std::size_t>(ranks));
    const auto train = [&](comm::Communicator& communicator) {
      Outcome& outcome = all[static_cast<std::size_t>(communicator.rank())];
      Repeating device(backend_, outcome.steps);
      Log log;
      Progress progress;
      const run::Run run = run_of({communicator, device, log, progress});
      Trainer trainer(run, run.options, run.dataset, run.device.facts().evaluation_batch);
      train_epochs(trainer, 4, [&] {
        outcome.losses.push_back(trainer.losses());
        models::Model& model = trainer.model();
        if (communicator.rank() != 0) return;
        comm::run_ranks(1, [&](comm::Communicator& alone) {
          const run::Run mine = run_of({alone, device, log, progress});
          evaluate::Evaluator(mine, mine.dataset, "validation", options_.validation.metrics).evaluate(model);
        });
      });
      outcome.weights = read_all(trainer, StateTensor::weights);
    };
    comm::run_ranks(ranks, train, cuda::emulator::thread_device(true));
    return all;
  }
};

// The batch size is not a multiple of the virtual shards, so that a rank's part changes from step to step:
// batches begin with one of 16 virtual shards, as those of 500 users.
TEST_F(CudaEmulatedCapture, RanksCaptureAndReplayTheSameSteps) {
  options_.data.file = make("more.h5", {.users = 1000, .validation = 400});
  options_.train.batch_size = 52;
  for (const int ranks : {2, 5}) {
    SCOPED_TRACE(ranks);
    const std::vector<Outcome> recorded = train_on(ranks, Toggle::automatic);
    for (const Outcome& rank : recorded) {
      EXPECT_EQ(rank.steps, recorded[0].steps);
      EXPECT_EQ(rank.weights, recorded[0].weights);
    }
    // One graph of 52 users and one of the last 12 in each epoch: the evaluation after it allocates memory.
    const std::string epoch_steps = "o" + std::string(18, '>') + "o";
    EXPECT_EQ(recorded[0].steps, epoch_steps + epoch_steps + epoch_steps + epoch_steps);
    const std::vector<Outcome> apart = train_on(ranks, Toggle::off);
    for (std::size_t epoch = 0; epoch < 4; ++epoch) {
      std::int64_t users = 0;
      for (std::size_t rank = 0; rank < recorded.size(); ++rank) {
        EXPECT_EQ(recorded[rank].losses[epoch].nll, apart[rank].losses[epoch].nll);
        EXPECT_EQ(recorded[rank].losses[epoch].weighted_kl, apart[rank].losses[epoch].weighted_kl);
        users += recorded[rank].losses[epoch].users;
      }
      EXPECT_EQ(users, 1000);
    }
    EXPECT_EQ(apart[0].weights, recorded[0].weights);
  }
}

}  // namespace
}  // namespace vaecf::training
