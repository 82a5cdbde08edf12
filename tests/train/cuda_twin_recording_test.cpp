// What is reduced in a recording, all ranks must record, and then replay, together: NCCL's rule. The twin's
// memory moves as the device's does, when the batches of one rank outgrow what it has.
#include <vaecf/train/evaluator.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/cuda_backend.hpp"
#include "support/cuda_twin/communicator.hpp"
#include "train/world_of_ranks.hpp"

namespace vaecf::train {
namespace {

/// Recordings that do the work again, reductions between ranks and all, which the twin's cannot hold. Which
/// of them still fit is the backend's own answer.
class Repeating : public cuda::CudaBackend {
 public:
  using CudaBackend::CudaBackend;

  std::unique_ptr<backend::Recording> record(const std::function<void()>& work) override {
    work();
    steps += 'o';
    auto nothing = CudaBackend::record([] {});
    return nothing ? std::make_unique<Work>(work, std::move(nothing)) : nullptr;
  }
  bool fits(const backend::Recording& recording) const override {
    return CudaBackend::fits(*static_cast<const Work&>(recording).nothing);
  }
  bool replay(backend::Recording& recording) override {
    if (!fits(recording)) return false;
    static_cast<Work&>(recording).work();
    steps += '>';
    return true;
  }

  std::string steps;  ///< recorded o, replayed >

 private:
  struct Work : backend::Recording {
    Work(std::function<void()> what, std::unique_ptr<backend::Recording> empty)
        : work(std::move(what)), nothing(std::move(empty)) {}
    std::function<void()> work;
    std::unique_ptr<backend::Recording> nothing;
  };
};

class Recordable : public cuda::twin::TwinCommunicator {
 public:
  using TwinCommunicator::TwinCommunicator;
  bool recordable() const override { return true; }
};

class CudaTwinRecording : public WorldOfRanks {
 protected:
  struct Outcome {
    std::string steps;
    Tensors weights;
  };

  /// Each rank's, of some epochs, the first rank alone evaluating after each.
  std::vector<Outcome> train_on(int ranks, const std::string& graph) {
    backend_.graph = graph;
    std::vector<Outcome> all(static_cast<std::size_t>(ranks));
    comm::run_ranks(ranks, [&](comm::Communicator& host) {
      Repeating backend(backend_, 0);
      Recordable communicator(host);
      Log log;
      Progress progress;
      const Services services{communicator, backend, log, progress};
      const io::DatasetFile dataset(options_.data.file);
      Trainer trainer(options_, services, dataset, evaluation_batch);
      for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
        trainer.start_epoch(epoch);
        for (std::int64_t t = 0; t < trainer.steps_per_epoch(); ++t) trainer.step(t);
        model::Network& model = trainer.model();
        if (communicator.rank() != 0) continue;
        comm::run_ranks(1, [&](comm::Communicator& alone) {
          const Services mine{alone, backend, log, progress};
          Evaluator(dataset, "validation", options_.validation.metrics, mine).evaluate(model);
        });
      }
      Outcome& outcome = all[static_cast<std::size_t>(communicator.rank())];
      outcome.steps = backend.steps;
      outcome.weights = export_all(backend, trainer.model().layout(), trainer.flat(FlatState::weights));
    });
    return all;
  }
};

// Batches that the virtual shards do not divide, so that a rank's share changes from step to step.
TEST_F(CudaTwinRecording, RanksRecordAndReplayTheSameSteps) {
  MadeUpData data;
  data.users = 1000;
  data.validation = 400;
  options_.data.file = make("more.h5", data);
  options_.train.batch_size = 40;
  for (const int ranks : {2, 3, 5}) {
    SCOPED_TRACE(ranks);
    const std::vector<Outcome> recorded = train_on(ranks, "auto");
    for (const Outcome& rank : recorded) {
      EXPECT_EQ(rank.steps, recorded[0].steps);
      EXPECT_EQ(rank.weights, recorded[0].weights);
    }
    EXPECT_EQ(recorded[0].steps.size(), 4U * 25U);
    EXPECT_GT(std::ranges::count(recorded[0].steps, '>'), 20) << recorded[0].steps;
    EXPECT_EQ(train_on(ranks, "off")[0].weights, recorded[0].weights);
  }
}

}  // namespace
}  // namespace vaecf::train
