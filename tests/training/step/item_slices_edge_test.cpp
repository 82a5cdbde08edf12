// Item slices that have different sizes, few users or no items of some users, and exact results.
#include <vaecf/evaluate/evaluator.hpp>

#include <array>
#include <cmath>

#include "training/step/multi_rank_fixture.hpp"

namespace vaecf::training {
namespace {

constexpr std::int64_t uneven_items = 61;  // of 2, 3, 4 and 5 item slices, the first one has one item more

/// A number of ranks, and of item slices.
struct Grid {
  int ranks;
  int item_slices;
};

std::ostream& operator<<(std::ostream& out, Grid grid) {
  return out << grid.ranks << " ranks, " << grid.item_slices << " item slices";
}

class ItemsEdge : public MultiRankTest {
 protected:
  void SetUp() override {
    MultiRankTest::SetUp();
    options_.data.file = make("odd.h5", {.items = uneven_items});
  }
  RankResults run_divided(Grid grid, std::int64_t steps) {
    options_.distributed.item_slices = grid.item_slices;
    return run(grid.ranks, steps);
  }
  void expect_same_curves(std::initializer_list<Grid> divisions, std::int64_t steps = 20) {
    const RankResults one = run_divided({1, 1}, steps);
    for (const Grid grid : divisions) {
      SCOPED_TRACE(::testing::Message() << grid);
      expect_same_curve(one, run_divided(grid, steps));
    }
  }
};

TEST_F(ItemsEdge, RanksStoreTheItemsOfTheirSlice) {
  for (const ModelType type : {ModelType::mult_vae, ModelType::recvae, ModelType::elsa}) {
    options_.model.type = type;
    options_.distributed.item_slices = 3;
    on_ranks(6, [&](const run::Run& run) {
      Trainer trainer(run, 0);
      const ItemSlice item_slice{uneven_items, run.communicator.rank() % 3, 3};
      std::int64_t sliced = 0;
      for (const device::TensorSpec& spec : trainer.model().tensors()) {
        if (!spec.item_slice) continue;
        ++sliced;
        EXPECT_EQ(*spec.item_slice, item_slice) << spec.name;
        EXPECT_EQ(spec.name.ends_with("/weight") && spec.has_item_rows() ? spec.rows : spec.columns,
                  item_slice.count())
            << spec.name;
      }
      EXPECT_EQ(sliced, options_.model.type == ModelType::elsa ? 1 : 3) << vaecf::to_string(type);
    });
  }
}

TEST_F(ItemsEdge, InitialWeightsAreThoseOfOneRank) {
  options_.optimizer.learning_rate = 0.0;
  options_.data.file = make("features.h5", {.items = uneven_items, .features = true});
  for (const ModelType type : {ModelType::mult_vae, ModelType::mult_dae, ModelType::autoencoder,
                               ModelType::recvae, ModelType::elsa}) {
    SCOPED_TRACE(vaecf::to_string(type));
    options_.model.type = type;
    options_.model.features = options_.model.type == ModelType::elsa ? models::FeaturesInput::off
                                                                     : models::FeaturesInput::automatic;
    const RankResults one = run_divided({1, 1}, 1);
    for (const Grid grid : {Grid{2, 2}, Grid{5, 5}, Grid{4, 2}})
      EXPECT_EQ(run_divided(grid, 1).weights[0], one.weights[0]) << grid;
  }
}

TEST_F(ItemsEdge, SlicesOfDifferentSizes) {
  for (const ModelType type :
       {ModelType::mult_vae, ModelType::autoencoder, ModelType::recvae, ModelType::elsa}) {
    SCOPED_TRACE(vaecf::to_string(type));
    options_.model.type = type;
    options_.model.elsa.factors = 9;
    options_.model.recvae.encoder_passes = 1;
    options_.optimizer = {};
    if (options_.model.type == ModelType::elsa) options_.optimizer.learning_rate = 0.01;
    if (options_.model.type == ModelType::autoencoder) {
      options_.optimizer.type = device::OptimizerKind::rmsprop;
      options_.optimizer.epsilon = 1e-4;
    }
    expect_same_curves({{2, 2}, {3, 3}, {4, 4}, {6, 3}}, 15);
  }
}

// Without noise, users like items that are equal modulo 5: of one of five item slices.
TEST_F(ItemsEdge, UsersWithAllItemsInOneSlice) {
  options_.data.file = make("plain.h5", {.items = uneven_items, .noise = false});
  expect_same_curves({{5, 5}, {10, 5}});
}

// A batch has users of one model-parallel group only.
TEST_F(ItemsEdge, GroupsWithoutUsers) {
  options_.train.batch_size = 1;
  options_.data.virtual_shards = 5;
  expect_same_curves({{4, 2}, {6, 2}, {6, 3}}, 15);
}

TEST_F(ItemsEdge, LibraryProductsAndThreads) {
  backend_.kernels = device::Kernels::automatic;
  backend_.threads = 2;
  expect_same_curves({{2, 2}, {3, 3}, {4, 2}}, 12);
}

// Updates of gradient descent are proportional to the gradient, which the norm of some tensors would change.
TEST_F(ItemsEdge, ClippedGradientDescent) {
  options_.optimizer.type = device::OptimizerKind::sgd;
  options_.optimizer.learning_rate = 0.05;
  const RankResults free = run_divided({3, 3}, 20);
  options_.train.clip_gradient_norm = 0.4;  // gradients have norms from 0.5 to 2
  expect_same_curves({{2, 2}, {3, 3}, {6, 3}});
  EXPECT_GT(difference(free.weights[0], run_divided({3, 3}, 20).weights[0]).relative, 1e-3)
      << "nothing was clipped";
}

TEST_F(ItemsEdge, OfOneGroupOnlyGradientsOfTheMiddleAreRounded) {
  const RankResults wide = run_divided({3, 3}, 1);
  options_.distributed.comm_dtype = comm::CommDtype::bf16;
  const RankResults bf16 = run_divided({3, 3}, 1);
  for (const auto& [name, gradient] : wide.gradient[0]) {
    const bool of_items = name == "encoder_1/weight" || name.starts_with("decoder_2/");
    EXPECT_EQ(bf16.gradient[0].at(name) == gradient, of_items) << name;
  }
}

TEST_F(ItemsEdge, ColdStartIsThatOfOneRank) {
  options_.data.file = make("features.h5", {.items = uneven_items, .features = true});
  const auto evaluate = [&](Grid grid) {
    options_.distributed.item_slices = grid.item_slices;
    return of_ranks(grid.ranks, [&](const run::Run& run) {
      Trainer trainer(run, run.device.facts().evaluation_batch);
      train_epochs(trainer, 3);
      evaluate::Evaluator evaluator(run, "test", options_.validation.metrics);
      return evaluator.evaluate(trainer.model(), models::History::none).metrics;
    })[0];
  };
  const evaluate::Metrics one = evaluate({1, 1});
  for (const Grid grid : {Grid{2, 2}, Grid{4, 4}, Grid{4, 2}}) {
    for (const auto& [name, value] : evaluate(grid))
      EXPECT_NEAR(value.mean, one.at(name).mean, 1e-3) << name << " on " << grid;
  }
}

// Scores are sums of small integers: exact, with many ties within and between item slices.
TEST_F(ItemsEdge, MetricsOfExactScoresAreEqual) {
  options_.model = {ModelType::autoencoder, {}, 4};
  options_.model.autoencoder.activation = device::Activation::identity;
  options_.model.autoencoder.loss = device::Loss::multinomial;
  options_.validation.metrics = {"ndcg@10", "recall@5", "mrr@10", "coverage@5", "popularity@5", "gini@7"};
  const auto evaluate = [&](Grid grid) {
    options_.distributed.item_slices = grid.item_slices;
    return of_ranks(grid.ranks, [&](const run::Run& run) {
      const io::DatasetFile dataset(options_.data.file);
      const auto model = models::make_model(
          options_.model, run::model_input_dims(options_, dataset, run.model_parallel()), run.device, 7);
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
      evaluate::Evaluator evaluator(run, "validation", options_.validation.metrics);
      return evaluator.evaluate(*model).metrics;
    });
  };
  const evaluate::Metrics one = evaluate({1, 1})[0];
  EXPECT_GT(one.at("ndcg@10").mean, 0.0);
  for (const Grid grid : {Grid{2, 2}, Grid{3, 3}, Grid{4, 4}, Grid{4, 2}, Grid{5, 5}}) {
    for (const evaluate::Metrics& found : evaluate(grid)) {
      ASSERT_EQ(found.size(), one.size());
      for (const auto& [name, value] : one)
        EXPECT_NEAR(found.at(name).mean, value.mean, 1e-12 * std::abs(value.mean)) << name << " on " << grid;
    }
  }
}

}  // namespace
}  // namespace vaecf::training
