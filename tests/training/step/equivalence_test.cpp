#include <vaecf/evaluate/evaluator.hpp>

#include "training/step/multi_rank_fixture.hpp"

namespace vaecf::training {
namespace {

using Equivalence = MultiRankTest;

// The Sharded tests compare other models, also replicated.
TEST_F(Equivalence, ShortLastBatchesAndFewVirtualShards) {
  options_.train.batch_size = 101;   // 101 + 101 + 1 users
  options_.data.virtual_shards = 5;  // not a multiple of 2, 3 or 4 ranks
  const RankResults one = run(1, 20);
  for (int ranks = 2; ranks <= 4; ++ranks) {
    SCOPED_TRACE(::testing::Message() << ranks << " ranks");
    expect_same_curve(one, run(ranks, 20));
  }
}

TEST_F(Equivalence, CompressedDatasetGivesEqualWeights) {
  const RankResults plain = run(1, 20);
  const std::string fingerprint = io::DatasetFile(options_.data.file).fingerprint();
  options_.data.file = make("compressed.h5", {.compression = 6});
  EXPECT_EQ(io::DatasetFile(options_.data.file).fingerprint(), fingerprint);
  EXPECT_EQ(plain.weights, run(1, 20).weights);  // bit by bit
}

TEST_F(Equivalence, OverlapHasNoEffect) {
  for (const ModelType type : {ModelType::mult_vae, ModelType::elsa}) {
    options_.model.type = type;
    options_.distributed.overlap = Toggle::off;
    const RankResults off = run(3, 20);
    options_.distributed.overlap = Toggle::on;
    const RankResults on = run(3, 20);
    EXPECT_EQ(off.weights[0], on.weights[0]) << vaecf::to_string(type);
  }
}

TEST_F(Equivalence, MetricsAreEqualOnAnyNumberOfRanks) {
  std::vector<evaluate::EvaluationResult> results;
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const auto of_rank = of_ranks(ranks, [&](const run::Run& run) {
      Trainer trainer(run, run.device.facts().evaluation_batch);
      train_epochs(trainer, 3);
      evaluate::Evaluator evaluator(run, "validation", options_.validation.metrics);
      return evaluator.evaluate(trainer.model());
    });
    for (const evaluate::EvaluationResult& result : of_rank) {
      EXPECT_EQ(result.users, 31);
      EXPECT_EQ(result.metrics.at("ndcg@10").mean, of_rank[0].metrics.at("ndcg@10").mean);
    }
    results.push_back(of_rank[0]);
  }
  for (const evaluate::EvaluationResult& result : results) {
    for (const auto& [name, value] : results[0].metrics) {
      EXPECT_NEAR(result.metrics.at(name).mean, value.mean, 1e-3) << name;
      EXPECT_NEAR(result.metrics.at(name).standard_error.value(), value.standard_error.value(), 1e-3) << name;
    }
    EXPECT_GT(result.metrics.at("ndcg@10").mean, 0.0);
  }
}

/// Compares two runs with train.deterministic.
class Deterministic : public MultiRankTest {
 protected:
  void expect_same_bits_twice(int ranks) {
    backend_.deterministic = true;
    backend_.threads = 2;
    const RankResults first = run(ranks, 12);
    const RankResults second = run(ranks, 12);
    EXPECT_EQ(first.gradient, second.gradient);
    EXPECT_EQ(first.weights, second.weights);
    EXPECT_EQ(first.masters, second.masters);
    EXPECT_EQ(first.moments, second.moments);
  }
};

TEST_F(Deterministic, TwoRunsOnOneRank) {
  expect_same_bits_twice(1);
}

TEST_F(Deterministic, TwoRunsWithLibraryProducts) {
  backend_.kernels = device::Kernels::automatic;
  for (const device::Precision precision : {device::Precision::fp32, device::Precision::bf16}) {
    backend_.precision = precision;
    expect_same_bits_twice(1);
  }
}

TEST_F(Deterministic, TwoRunsOnThreeRanks) {
  options_.train.clip_gradient_norm = 0.1;
  for (const auto optimizer : {comm::OptimizerPlacement::replicated, comm::OptimizerPlacement::sharded}) {
    options_.distributed.optimizer = optimizer;
    for (const auto wire : {comm::CommDtype::fp32, comm::CommDtype::bf16}) {
      options_.distributed.comm_dtype = wire;
      SCOPED_TRACE(::testing::Message() << to_string(optimizer) << ", " << to_string(wire));
      expect_same_bits_twice(3);
    }
  }
}

}  // namespace
}  // namespace vaecf::training
