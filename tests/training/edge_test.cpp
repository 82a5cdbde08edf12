#include "models/model_fixture.hpp"
#include "models/network/network.hpp"
#include "support/train_fixture.hpp"

namespace vaecf::training {
namespace {

class EdgeCases : public TrainTest {
 protected:
  struct Outcome {
    Tensors weights;
    std::int64_t steps = 0;
    std::int64_t users_seen = 0;
    std::int64_t users_counted = 0;
  };

  Outcome train_three_epochs(int ranks) {
    const auto outcomes = of_ranks(ranks, [&](const run::Run& run) {
      Trainer trainer(run, run.options, run.dataset, 0);
      std::int64_t users_counted = 0;
      train_epochs(trainer, 3, [&] { users_counted += trainer.losses().users; });
      return Outcome{weights_of(trainer.model()), trainer.updates_done(), trainer.users_seen(),
                     run.communicator.all_reduce(users_counted)};
    });
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.weights, outcomes[0].weights);
    return outcomes[0];
  }
};

TEST_F(EdgeCases, BatchesOfAnEpochDoNotDependOnTheEpochsBefore) {
  on_ranks(1, [&](const run::Run& run) {
    const auto nll = [&](const std::vector<std::int64_t>& epochs) {
      Trainer trainer(run, run.options, run.dataset, 0);
      for (const std::int64_t epoch : epochs) trainer.start_epoch(epoch);
      trainer.step(0);
      return trainer.losses().nll;
    };
    EXPECT_EQ(nll({0, 1, 1, 2}), nll({2}));  // sampled in the background, as when a run resumes
    EXPECT_EQ(nll({0, 2}), nll({2}));
    EXPECT_EQ(nll({2, 0}), nll({0}));
    EXPECT_NE(nll({1}), nll({2}));
  });
}

TEST_F(EdgeCases, FewUsersSmallBatchesAndShardsWithoutUsers) {
  struct Case {
    std::int64_t users;
    std::int64_t batch_size;
    int virtual_shards;
    std::int64_t steps;  // of three epochs
  };
  for (const Case& few : {Case{3, 37, 64, 3}, Case{1, 1, 64, 3}, Case{9, 1, 64, 27}, Case{203, 100000, 64, 3},
                          Case{2, 37, 4, 3}}) {  // four ranks own one shard each, two of them empty
    SCOPED_TRACE(::testing::Message() << few.users << " users, batches of " << few.batch_size);
    options_.data.file = make("few.h5", {.users = few.users});
    options_.train.batch_size = few.batch_size;
    options_.data.virtual_shards = few.virtual_shards;
    const Outcome one = train_three_epochs(1);
    EXPECT_EQ(one.steps, few.steps);
    for (const int ranks : {2, 3, 4}) {
      const Outcome many = train_three_epochs(ranks);
      EXPECT_LE(difference(one.weights, many.weights).relative, 1e-5) << ranks << " ranks";
      EXPECT_EQ(many.steps, one.steps);
      EXPECT_EQ(many.users_seen, one.users_seen);
      EXPECT_EQ(many.users_counted, many.users_seen);
    }
  }
}

TEST_F(EdgeCases, LastBatchIsKeptOrDropped) {
  const Outcome keep = train_three_epochs(2);  // 203 = 5 * 37 + 18
  EXPECT_EQ(keep.steps, 3 * 6);
  EXPECT_EQ(keep.users_seen, 3 * 203);
  options_.train.last_batch = training::LastBatch::drop;
  const Outcome drop = train_three_epochs(2);
  EXPECT_EQ(drop.steps, 3 * 5);
  EXPECT_EQ(drop.users_seen, 3 * 5 * 37);
  EXPECT_EQ(drop.users_counted, 3 * 5 * 37);
}

TEST_F(EdgeCases, NonFiniteLossThrowsWithStep) {
  options_.optimizer.type = device::OptimizerKind::sgd;
  options_.optimizer.learning_rate = 1e30;
  for (int ranks = 1; ranks <= 3; ranks += 2) {
    expect_error<RunError>({"the loss is not finite at step ", "on rank "},
                           [&] { train_three_epochs(ranks); });
  }
}

// Without a first moment, updates by Adam have equal sizes, if all updates before them are counted.
TEST_F(EdgeCases, AdamCountsTheUpdatesOfAllEpochs) {
  options_.train.batch_size = 1000;  // an epoch is one update
  options_.optimizer.learning_rate = 1e-4;
  options_.optimizer.beta1 = 0.0;
  on_ranks(1, [&](const run::Run& run) {
    Trainer trainer(run, run.options, run.dataset, 0);
    std::vector<double> sizes;
    for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
      const Tensors before = weights_of(trainer.model());
      trainer.start_epoch(epoch);
      trainer.step(0);
      double squares = 0.0;
      for (const auto& [name, values] : weights_of(trainer.model()))
        for (std::size_t i = 0; i < values.size(); ++i)
          squares += std::pow(values[i] - before.at(name)[i], 2);
      sizes.push_back(std::sqrt(squares));
    }
    EXPECT_NEAR(sizes.back(), sizes.front(), 0.25 * sizes.front());
  });
}

TEST_F(EdgeCases, EachUpdateSamplesNewDropoutAndNoise) {
  options_.train.batch_size = 1000;          // every step has all users,
  options_.optimizer.learning_rate = 1e-12;  // and the weights do not change
  on_ranks(1, [&](const run::Run& run) {
    Trainer trainer(run, run.options, run.dataset, 0);
    const auto device = models::fp32_device(device::Kernels::portable);
    const Csr rows = run.dataset.read_rows("train", {0, 203});
    const std::int64_t items = run.dataset.items();
    models::Network model(models::shape_of(options_.model, items), items, *device, rows.rows());
    models::initialize(model, model.shape(), options_.train.seed);
    const models::WholeBatch whole(*device, rows, 0, run.dataset.items());
    auto gradients = device->make_buffer(model.layout().size);
    double before = 0.0;
    for (std::uint32_t step = 0; step < 3; ++step) {
      const device::LossSums expected = models::gradient_step(
          *device, model, {*whole.batch}, gradients, {.seed = options_.train.seed, .step = step, .rule = {}});
      trainer.start_epoch(step);
      trainer.step(0);
      const device::LossSums sums = trainer.losses();
      EXPECT_NEAR(sums.nll / expected.nll, 1.0, 1e-6) << "step " << step;
      EXPECT_NEAR(sums.kl / expected.kl, 1.0, 1e-5) << "step " << step;
      EXPECT_GT(std::abs(sums.nll - before), 1e-4 * sums.nll) << "step " << step;
      before = sums.nll;
    }
  });
}

}  // namespace
}  // namespace vaecf::training
