#pragma once

#include <vaecf/training/trainer.hpp>

#include "support/train_fixture.hpp"

namespace vaecf::training {

/// A division of a training over ranks.
struct Division {
  int ranks = 1;
  int item_slices = 1;
  comm::OptimizerPlacement optimizer = comm::OptimizerPlacement::replicated;
  int servers = 0;  ///< of the ranks; 0: all-reduce
  friend std::ostream& operator<<(std::ostream& out, const Division& d) {
    return out << d.ranks << " ranks, " << d.item_slices << " item slices, " << to_string(d.optimizer) << ", "
               << d.servers << " servers";
  }
};
constexpr auto replicated = comm::OptimizerPlacement::replicated;
constexpr auto sharded = comm::OptimizerPlacement::sharded;
constexpr comm::CommDtype wires[] = {comm::CommDtype::fp32, comm::CommDtype::bf16};

/// The results of a training on all ranks, by rank.
struct RankResults {
  std::vector<Tensors>
      gradient;  ///< of the first step, summed over ranks and scaled: Adam's first moment after it
  std::vector<Tensors> weights;  ///< that the rank computes with
  std::vector<Tensors> masters;
  std::vector<Tensors> moments;
};

class MultiRankTest : public TrainTest {
 protected:
  void divide(const Division& division) {
    options_.distributed.item_slices = division.item_slices;
    options_.distributed.optimizer = division.optimizer;
    options_.distributed.strategy =
        division.servers > 0 ? comm::StrategyKind::parameter_server : comm::StrategyKind::allreduce;
    if (division.servers > 0) options_.distributed.servers = division.servers;
  }
  RankResults run_as(const Division& division, std::int64_t steps = 12) {
    divide(division);
    return run(division.ranks, steps);
  }

  RankResults run(int ranks, std::int64_t steps) {
    const std::vector<Tensors> none(static_cast<std::size_t>(ranks));
    RankResults results{none, none, none, none};
    std::vector<std::vector<device::TensorSpec>> specs(none.size());
    on_ranks(ranks, [&](const run::Run& run) {
      const auto rank = static_cast<std::size_t>(run.communicator.rank());
      Trainer trainer(run, run.options, run.dataset, 0);
      for (std::int64_t s = 0; s < steps; ++s) {
        const std::int64_t t = s % trainer.steps_per_epoch();
        if (t == 0) trainer.start_epoch(s / trainer.steps_per_epoch());
        trainer.step(t);
        if (s == 0) results.gradient[rank] = read_all(trainer, StateTensor::first_moment);
      }
      results.weights[rank] = weights_of(trainer.model());
      results.masters[rank] = read_all(trainer, StateTensor::weights);
      results.moments[rank] = read_all(trainer, StateTensor::second_moment);
      specs[rank] = trainer.model().tensors();
    });
    const auto item_slices = static_cast<std::size_t>(options_.distributed.item_slices);
    if (item_slices > 1) {
      for (auto* tensors : {&results.gradient, &results.weights, &results.masters, &results.moments})
        put_together(*tensors, specs, item_slices);
    }
    return results;
  }

  /// Replaces the item slices of each model-parallel group by the tensors of all items. Tensors that are not
  /// divided must be equal on all ranks of the model-parallel group.
  static void put_together(std::vector<Tensors>& of_ranks,
                           const std::vector<std::vector<device::TensorSpec>>& specs,
                           std::size_t item_slices) {
    for (std::size_t first = 0; first < of_ranks.size(); first += item_slices) {
      Tensors whole;
      for (std::size_t rank = first; rank < first + item_slices; ++rank) {
        for (const device::TensorSpec& spec : specs[rank]) {
          const std::vector<float>& stored = of_ranks[rank].at(spec.name);
          std::vector<float>& all = whole[spec.name];
          if (!spec.item_slice) {
            if (rank > first) {
              EXPECT_EQ(stored, all) << spec.name << " of rank " << rank;
            }
            all = stored;
            continue;
          }
          all.resize(static_cast<std::size_t>(spec.logical_rows() * spec.logical_columns()));
          for (std::int64_t row = 0; row < spec.rows; ++row) {
            for (std::int64_t column = 0; column < spec.columns; ++column) {
              all[static_cast<std::size_t>(spec.logical_index(row, column))] =
                  stored[static_cast<std::size_t>(row * spec.columns + column)];
            }
          }
        }
      }
      for (std::size_t rank = first; rank < first + item_slices; ++rank) of_ranks[rank] = whole;
    }
  }

  static void expect_same_on_all_ranks(const RankResults& results) {
    for (const auto* of_ranks : {&results.weights, &results.masters, &results.moments})
      for (const Tensors& tensors : *of_ranks) EXPECT_EQ(tensors, of_ranks->front());
  }

  /// Expects gradients, weights and moments to be independent of the division, within bounds.
  void expect_same_curve(const RankResults& one, const RankResults& other) {
    expect_same_on_all_ranks(other);
    EXPECT_LE(difference(one.gradient[0], other.gradient[0]).relative, 1e-6);
    const Difference weights = difference(one.masters[0], other.masters[0]);
    EXPECT_LE(weights.relative, 1e-5);
    EXPECT_LE(weights.largest, 0.1 * options_.optimizer.learning_rate);
    EXPECT_LE(difference(one.moments[0], other.moments[0]).relative, 1e-4);
  }
};

}  // namespace vaecf::training
