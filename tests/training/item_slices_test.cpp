// What ranks that divide the items count, evaluate and store. Curves: curve_test.cpp.
#include <vaecf/evaluate/evaluator.hpp>

#include <array>

#include "support/for_each_kind.hpp"
#include "training/multi_rank_fixture.hpp"

namespace vaecf::training {
namespace {

/// Of 61 items, the first of 2, 3, 4 and 5 item slices has one more.
constexpr std::int64_t uneven_items = 61;
const std::vector<Division> divisions = {{2, 2}, {3, 3}, {4, 4}, {4, 2}};

class Items : public MultiRankTest {
 protected:
  void SetUp() override {
    MultiRankTest::SetUp();
    options_.data.file = make("odd.h5", {.items = uneven_items});
  }
  /// Returns the results of `body` on all ranks of a division.
  template <class Body>
  auto of_division(const Division& division, Body&& body) {
    divide(division);
    return of_ranks(division.ranks, body);
  }
};

TEST_F(Items, OfOneGroupOnlyGradientsOfTheMiddleAreRounded) {
  const RankResults wide = run_as({3, 3}, 1);
  options_.distributed.comm_dtype = comm::CommDtype::bf16;
  const RankResults bf16 = run_as({3, 3}, 1);
  for (const auto& [name, gradient] : wide.gradient[0]) {
    const bool of_items = name == "encoder_1/weight" || name.starts_with("decoder_2/");
    EXPECT_EQ(bf16.gradient[0].at(name) == gradient, of_items) << name;
  }
}

// Nothing is counted twice, and nothing is left out.
TEST_F(Items, LossesAndUsersAreCountedOnce) {
  options_.train.weight_decay = 0.01;
  const auto totals = [&](const Division& division) {
    std::array<double, 5> sums{};
    const auto of_rank = of_division(division, [&](const run::Run& run) {
      Trainer trainer(run, run.options, run.dataset, 0);
      train_epochs(trainer, 1);
      const device::LossSums mine = trainer.losses();
      return std::array<double, 5>{mine.nll, mine.kl, mine.weighted_kl, static_cast<double>(mine.users),
                                   trainer.sum_of_squares()};
    });
    for (const auto& mine : of_rank) {
      for (std::size_t i = 0; i + 1 < mine.size(); ++i) sums[i] += mine[i];
      sums.back() = mine.back();
      EXPECT_EQ(mine.back(), of_rank[0].back());
    }
    return sums;
  };
  const auto one = totals({});
  for (const Division& division : divisions) {
    const auto all = totals(division);
    EXPECT_EQ(all[3], one[3]);
    for (const std::size_t i : {0, 1, 2, 4}) EXPECT_NEAR(all[i] / one[i], 1.0, 1e-6) << i;
  }
}

TEST_F(Items, EvaluationIsThatOfOneRank) {
  options_.data.file =
      make("users.h5", {.items = uneven_items, .without_target = 3, .without_history = 4, .features = true});
  options_.validation.metrics = {"ndcg@10", "recall@5", "coverage@5", "novelty@5", "gini@5"};
  const auto evaluate = [&](const Division& division) {
    const auto of_rank = of_division(division, [&](const run::Run& run) {
      Trainer trainer(run, run.options, run.dataset, run.device.facts().evaluation_batch);
      train_epochs(trainer, 2);
      evaluate::Evaluator evaluator(run, run.dataset, "test", options_.validation.metrics);
      return std::array{evaluator.evaluate(trainer.model()),
                        evaluator.evaluate(trainer.model(), models::History::none)};
    });
    for (const auto& results : of_rank) {
      for (const std::size_t i : {0, 1}) {
        EXPECT_EQ(results[i].users, of_rank[0][i].users);
        for (const auto& [name, value] : results[i].metrics)
          EXPECT_EQ(value.mean, of_rank[0][i].metrics.at(name).mean);
      }
    }
    return of_rank[0];
  };
  const auto one = evaluate({});
  for (const Division& division : divisions) {
    SCOPED_TRACE(::testing::Message() << division);
    const auto found = evaluate(division);
    for (const std::size_t i : {0, 1}) {
      EXPECT_EQ(found[i].users, one[i].users);
      EXPECT_EQ(found[i].users_without_history, one[i].users_without_history);
      for (const auto& [name, value] : one[i].metrics)
        EXPECT_NEAR(found[i].metrics.at(name).mean, value.mean, 1e-3) << name;
    }
  }
}

// Scores are sums of small integers: exact, with many ties within and between item slices.
TEST_F(Items, MetricsOfExactScoresAreEqual) {
  set({"model={type: autoencoder, hidden: [], latent: 4}",
       "model.autoencoder={activation: identity, loss: multinomial}",
       "evaluation.metrics=[ndcg@10, recall@5, mrr@10, coverage@5, mean_popularity@5, gini@7]"});
  const auto evaluate = [&](const Division& division) {
    return of_division(division, [&](const run::Run& run) {
      const auto model =
          models::trained_kind_of(options_.model.type)
              .make(options_.model, models::input_dims(options_.model, run.dataset, run.model_parallel()),
                    run.device, 7);
      int tensor = 0;
      for (const device::TensorSpec& spec : model->tensors()) {
        std::vector<float> values;
        for (std::int64_t row = 0; row < spec.rows; ++row) {
          for (std::int64_t column = 0; column < spec.columns; ++column) {
            const auto index = static_cast<std::uint32_t>(spec.logical_index(row, column));
            values.push_back(static_cast<float>(index * 2654435761U / 65536U % 3U) - 1.0F);
          }
        }
        model->write_rows(tensor++, {0, spec.rows}, values);
      }
      model->finish_writing();
      evaluate::Evaluator evaluator(run, run.dataset, "validation", options_.validation.metrics);
      return evaluator.evaluate(*model).metrics;
    });
  };
  const evaluate::Metrics one = evaluate({})[0];
  EXPECT_GT(one.at("ndcg@10").mean, 0.0);
  for (const Division& division : {Division{2, 2}, {3, 3}, {4, 2}, {5, 5}}) {
    for (const evaluate::Metrics& found : evaluate(division)) {
      ASSERT_EQ(found.size(), one.size());
      for (const auto& [name, value] : one)
        EXPECT_NEAR(found.at(name).mean, value.mean, 1e-12 * std::abs(value.mean))
            << name << " on " << division;
    }
  }
}

// Item models are not divided: all ranks of a model-parallel group compute their values.
TEST_F(Items, BaselinesAreThoseOfOneRank) {
  options_.validation.baselines = {"popularity", "item_knn", "ease"};
  options_.train.epochs = 1;
  const auto baselines = [&](const Division& division) {
    return of_division(division, [&](const run::Run& run) {
      train(run);
      return test(run, run_folder().best()).baselines;
    })[0];
  };
  const auto one = baselines({});
  const auto divided = baselines({4, 2});
  ASSERT_EQ(divided.size(), one.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    for (const auto& [name, value] : one[i].result.metrics)
      EXPECT_NEAR(divided[i].result.metrics.at(name).mean, value.mean, 1e-6) << one[i].name << " " << name;
  }
}

TEST_F(Items, InitialCheckpointsAreEqualToTheByte) {
  options_.data.file = make("features.h5", {.items = uneven_items, .features = true});
  const auto initial = [&](const Division& division) {
    divide(division);
    with_manager(division.ranks, [&](const run::Run& run, Trainer& trainer, auto& manager) {
      checkpoint::TrainingState state;
      state.describe(run, run.options.model, run.dataset, run.configuration_text, "last");
      state.gather_sums({}, run.communicator);
      manager.save(state, {.resumable = true}, trainer);
      manager.finish(true);
    });
    const std::string path = run_folder().checkpoints() + "/epoch-0000.h5";
    return std::pair(tensors_in(path), io::CheckpointFile(path).attributes());
  };
  options_.run.checkpoint_every.epochs = 1;
  testing::for_each_trained_kind([&](const models::TrainedKind& kind) {
    const ModelType type = kind.type();
    if (on_emulator && type != ModelType::mult_vae) return;  // the device has no part in the others
    options_.model.type = type;
    const auto [tensors, attributes] = initial({});
    for (const Division& division : {Division{2, 2}, {5, 5}, {4, 2}}) {
      SCOPED_TRACE(::testing::Message() << division);
      auto [others, other_attributes] = initial(division);
      EXPECT_EQ(others, tensors);
      EXPECT_EQ(std::get<std::int64_t>(other_attributes.at("item_slices")), division.item_slices);
      ASSERT_EQ(other_attributes.size(), attributes.size());
      for (const auto& [name, value] : attributes) {
        if (name == "ranks" || name == "item_slices" || name.ends_with("_by_rank")) continue;
        EXPECT_EQ(other_attributes.at(name), value) << name;
      }
    }
  });
}

}  // namespace
}  // namespace vaecf::training
