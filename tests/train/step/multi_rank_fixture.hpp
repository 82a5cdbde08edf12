#pragma once

#include <vaecf/train/trainer.hpp>

#include "train/train_fixture.hpp"

namespace vaecf::train {

/// The results of a training on all ranks, by rank.
struct RankResults {
  std::vector<Tensors>
      gradient;  ///< of the first step, summed over ranks and scaled: Adam's first moment after it
  std::vector<Tensors> weights;  ///< that the rank computes with
  std::vector<Tensors> masters;
  std::vector<Tensors> moments;
};

/// Trains on thread ranks.
class MultiRankTest : public TrainTest {
 protected:
  RankResults run(int ranks, std::int64_t steps) {
    const std::vector<Tensors> none(static_cast<std::size_t>(ranks));
    RankResults results{none, none, none, none};
    on_ranks(ranks, [&](const RunContext& context) {
      const auto rank = static_cast<std::size_t>(context.communicator.rank());
      const io::DatasetFile dataset(options_.data.file);
      Trainer trainer(options_, context, dataset, 0);
      for (std::int64_t s = 0; s < steps; ++s) {
        const std::int64_t t = s % trainer.steps_per_epoch();
        if (t == 0) trainer.start_epoch(s / trainer.steps_per_epoch());
        trainer.step(t);
        if (s == 0) results.gradient[rank] = read_all(context.engine, StateTensor::first_moment);
      }
      results.weights[rank] = weights_of(trainer.model());
      results.masters[rank] = read_all(context.engine, StateTensor::weights);
      results.moments[rank] = read_all(context.engine, StateTensor::second_moment);
    });
    return results;
  }

  static void expect_same_on_all_ranks(const RankResults& results) {
    for (std::size_t r = 1; r < results.weights.size(); ++r) {
      EXPECT_EQ(results.weights[r], results.weights[0]) << "rank " << r << " of " << results.weights.size();
      EXPECT_EQ(results.masters[r], results.masters[0]) << "rank " << r << " of " << results.weights.size();
      EXPECT_EQ(results.moments[r], results.moments[0]) << "rank " << r << " of " << results.weights.size();
    }
  }

  /// Expects weights and losses to be independent of the number of ranks and of sharding, within bounds.
  void expect_same_curve(const RankResults& one, const RankResults& other) {
    expect_same_on_all_ranks(other);
    EXPECT_LE(difference(one.gradient[0], other.gradient[0]).relative, 1e-6);
    const Difference weights = difference(one.masters[0], other.masters[0]);
    EXPECT_LE(weights.relative, 1e-5);
    EXPECT_LE(weights.largest, 0.1 * options_.optimizer.learning_rate);
  }
};

}  // namespace vaecf::train
