#include <chrono>
#include <thread>

#include "run/parts.hpp"
#include "training/train_fixture.hpp"

namespace vaecf::training {
namespace {

class Coordinator : public TrainTest {};

TEST_F(Coordinator, CheckpointIsDueMinutesAfterTheStartOrTheLastOne) {
  constexpr double minutes = 0.001;
  options_.run.checkpoint_every = {0, 0, minutes};
  on_ranks(1, [&](const run::RunContext& context) {
    auto begin = Clock::now();
    run::StepCoordinator coordinator(options_.run, context, 1);
    std::int64_t step = 0;
    for (int checkpoint = 0; checkpoint < 2; ++checkpoint) {
      while (!coordinator.decide(step, true).checkpoint) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ++step;
      }
      EXPECT_GE(seconds_since(begin), 60.0 * minutes);
      begin = Clock::now();
      coordinator.saved(step);
    }
  });
}

}  // namespace
}  // namespace vaecf::training
