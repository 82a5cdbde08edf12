#include <vaecf/evaluate/evaluator.hpp>

#include <array>
#include <tuple>

#include "device/cpu/device.hpp"
#include "models/elsa/elsa.hpp"
#include "models/recvae/recvae.hpp"
#include "support/cuda_emulator/runtime.hpp"
#include "support/for_each_kind.hpp"
#include "training/multi_rank_fixture.hpp"

namespace vaecf::training {
namespace {

using device::Precision;

/// The results of a run of three epochs.
struct OneRun {
  std::vector<device::LossSums> epochs;
  Tensors weights;
  Tensors moments;
  std::map<std::string, double> metrics;  ///< on /validation
  device::LossScale scale;
};

class CudaEmulatedTraining : public MultiRankTest {
 protected:
  OneRun train_on(const run::Run& context) {
    Trainer trainer(context, context.options, context.dataset, context.device.facts().evaluation_batch);
    OneRun run;
    train_epochs(trainer, 3, [&] { run.epochs.push_back(trainer.losses()); });
    run.weights = read_all(trainer, StateTensor::weights);
    run.moments = read_all(trainer, StateTensor::second_moment);
    run.scale = trainer.loss_scale();
    evaluate::Evaluator evaluator(context, context.dataset, "validation", options_.validation.metrics);
    for (const auto& [name, value] : evaluator.evaluate(trainer.model()).metrics) {
      run.metrics[name] = value.mean;
    }
    return run;
  }

  OneRun on_emulator(Precision precision, Toggle graph = Toggle::automatic,
                     Toggle resident = Toggle::automatic) {
    backend_.precision = precision;
    backend_.cuda_graph = graph;
    backend_.resident = resident;
    return of_ranks(1, [&](const run::Run& context) { return train_on(context); })[0];
  }

  OneRun on_cpu() {
    OneRun run;
    with_cpu([&](const run::Run& context) { run = train_on(context); });
    return run;
  }

  void with_cpu(const std::function<void(const run::Run&)>& body,
                Precision precision = Precision::fp32) const {
    on_devices(
        1, [&](int) { return cpu::Device(1, precision, true); }, body);
  }

  static void expect_same_bits(const OneRun& a, const OneRun& b) {
    EXPECT_EQ(a.weights, b.weights);
    EXPECT_EQ(a.moments, b.moments);
    EXPECT_EQ(a.metrics, b.metrics);
    for (std::size_t epoch = 0; epoch < a.epochs.size(); ++epoch) {
      EXPECT_EQ(a.epochs[epoch].nll, b.epochs[epoch].nll);
      EXPECT_EQ(a.epochs[epoch].weighted_kl, b.epochs[epoch].weighted_kl);
      EXPECT_EQ(a.epochs[epoch].users, b.epochs[epoch].users);
    }
  }
};

TEST_F(CudaEmulatedTraining, FollowsTheCurveOfTheCpu) {
  options_.optimizer.learning_rate = 0.01;
  for (const std::vector<std::int64_t>& hidden : {std::vector<std::int64_t>{20}, {}}) {
    options_.model.hidden = hidden;
    options_.data.file = make("features.h5", {.features = true, .weighted = hidden.empty()});
    const OneRun cpu = on_cpu();
    EXPECT_LT(cpu.epochs[2].nll, 0.97 * cpu.epochs[0].nll) << "the loss did not decrease";
    for (const auto& [precision, loss, weights, metric] :
         {std::tuple{Precision::fp32, 1e-5, 1e-4, 1e-6}, std::tuple{Precision::bf16x3, 1e-5, 1e-4, 1e-6},
          std::tuple{Precision::bf16, 2e-3, 3e-2, 2e-2}}) {
      SCOPED_TRACE(::testing::Message() << vaecf::to_string(precision) << hidden.size());
      const OneRun emulated = on_emulator(precision);
      for (std::size_t epoch = 0; epoch < 3; ++epoch) {
        EXPECT_EQ(emulated.epochs[epoch].users, 203);
        EXPECT_EQ(emulated.epochs[epoch].skipped, 0);
        EXPECT_NEAR(emulated.epochs[epoch].nll / cpu.epochs[epoch].nll, 1.0, loss);
        EXPECT_NEAR(emulated.epochs[epoch].kl / cpu.epochs[epoch].kl, 1.0, 10 * loss);
      }
      EXPECT_LE(difference(cpu.weights, emulated.weights).relative, weights);
      for (const auto& [name, value] : cpu.metrics)
        EXPECT_NEAR(emulated.metrics.at(name), value, metric) << name;
    }
  }
}

TEST_F(CudaEmulatedTraining, CheckpointsOfBothDevicesCanBeReadOnBoth) {
  options_.train.epochs = 2;
  options_.optimizer.learning_rate = 0.01;
  const auto on = [&](bool emulated, const std::function<void(const run::Run&)>& body) {
    if (emulated)
      on_ranks(1, body);
    else
      with_cpu(body);
  };
  const Csr seen = {{0, 3, 5}, {0, 5, 10, 1, 59}};
  for (const bool written_by_emulator : {false, true}) {
    SCOPED_TRACE(written_by_emulator);
    options_.name = written_by_emulator ? "by_emulator" : "by_cpu";
    on(written_by_emulator, [&](const run::Run& context) { train(context); });
    std::array<Lists, 2> lists;
    std::array<double, 2> ndcg{};
    for (const std::size_t emulated : {0U, 1U}) {
      on(emulated == 1, [&](const run::Run& context) {
        const std::string checkpoint = run_folder().best();
        lists[emulated] = recommend(context, checkpoint, {10, false, {}}, seen.view());
        ndcg[emulated] = test(context, checkpoint).model.metrics.at("ndcg@10").mean;
      });
    }
    EXPECT_EQ(lists[0].items, lists[1].items);
    for (std::size_t i = 0; i < 20; ++i) EXPECT_NEAR(lists[0].scores[i], lists[1].scores[i], 1e-4) << i;
    EXPECT_GT(ndcg[0], 0.0);
    EXPECT_NEAR(ndcg[0], ndcg[1], 1e-6);
  }
}

// With the initial loss scale, -1, the gradient at each of a user's items, overflows.
TEST_F(CudaEmulatedTraining, Fp16SkipsItsFirstStepsAndLearns) {
  options_.optimizer.learning_rate = 0.01;
  const OneRun cpu = on_cpu();
  const OneRun emulated = on_emulator(Precision::fp16);
  EXPECT_GE(emulated.epochs[0].skipped, 1);
  EXPECT_LE(emulated.epochs[0].skipped, 3);
  EXPECT_LT(emulated.epochs[0].users, 203);
  EXPECT_GT(emulated.epochs[0].users, 0);
  EXPECT_EQ(emulated.epochs[2].skipped, 0);
  EXPECT_EQ(emulated.epochs[2].users, 203);
  EXPECT_EQ(emulated.scale.scale, std::ldexp(65536.0F, -static_cast<int>(emulated.epochs[0].skipped)));
  // Some updates were skipped.
  EXPECT_NEAR(emulated.epochs[2].nll / cpu.epochs[2].nll, 1.0, 0.02);
  EXPECT_LT(emulated.epochs[2].nll, cpu.epochs[1].nll);
}

TEST_F(CudaEmulatedTraining, GraphsAndMemoryLocationOfRowsHaveNoEffect) {
  for (const Precision precision : {Precision::fp32, Precision::bf16x3, Precision::fp16}) {
    SCOPED_TRACE(vaecf::to_string(precision));
    options_.data.file = make("features.h5", {.features = true, .weighted = precision != Precision::bf16x3});
    const OneRun recorded = on_emulator(precision);
    expect_same_bits(recorded, on_emulator(precision));
    expect_same_bits(recorded, on_emulator(precision, Toggle::off));
    expect_same_bits(recorded, on_emulator(precision, Toggle::automatic, Toggle::off));
  }
}

// With clipping, updates are not fused; this bound clips nothing.
constexpr double clips_nothing = 1e30;

TEST_F(CudaEmulatedTraining, FusedUpdatesHaveNoEffect) {
  options_.train.weight_decay = 0.01;
  for (const auto& [type, precision] : {std::pair{ModelType::mult_vae, Precision::fp32},
                                        {ModelType::mult_vae, Precision::bf16},
                                        {ModelType::autoencoder, Precision::fp32},
                                        {ModelType::recvae, Precision::fp32}}) {
    SCOPED_TRACE(::testing::Message() << vaecf::to_string(type) << " " << vaecf::to_string(precision));
    options_.model.type = type;
    options_.data.file = make("features.h5", {.features = true, .weighted = type == ModelType::recvae});
    options_.train.clip_gradient_norm = clips_nothing;
    const OneRun apart = on_emulator(precision);
    options_.train.clip_gradient_norm = 0.0;
    expect_same_bits(apart, on_emulator(precision));
    expect_same_bits(apart, on_emulator(precision, Toggle::off));
  }
}

// Each is a node of the graph and takes microseconds, however little it computes. A scan or a sort counts as
// one.
TEST_F(CudaEmulatedTraining, StepHasAsFewOperationsAsListed) {
  options_.model.latent = 8;
  const auto operations = [&](ModelType type, Precision precision, const std::vector<std::int64_t>& hidden) {
    options_.model.type = type;
    options_.model.hidden = hidden;
    backend_.precision = precision;
    on_ranks(1, [&](const run::Run& context) {
      Trainer trainer(context, context.options, context.dataset, 0);
      trainer.start_epoch(0);
      trainer.step(0);
    });
    return cuda::emulator::runtime().captured;
  };
  EXPECT_EQ(operations(ModelType::mult_vae, Precision::bf16, {24}), 26U);
  EXPECT_EQ(operations(ModelType::mult_vae, Precision::fp32, {24}), 26U);
  EXPECT_EQ(operations(ModelType::mult_vae, Precision::bf16, {32, 24}), 37U);
  EXPECT_EQ(operations(ModelType::mult_dae, Precision::bf16, {24}), 25U);
  EXPECT_EQ(operations(ModelType::recvae, Precision::bf16, {24}), 83U);
  EXPECT_EQ(operations(ModelType::elsa, Precision::bf16, {}), 17U);
}

// With widths that are multiples of 8, whatever the numbers of items and users are: the rows of all matrices
// are whole pieces of 16 bytes, which cuBLASLt's fast kernels require.
TEST_F(CudaEmulatedTraining, ProductsOfAStepAreFast) {
  const auto slow_products = [&](int item_slices) {
    std::string slow;
    divide({.ranks = item_slices, .item_slices = item_slices});
    on_ranks(item_slices, [&](const run::Run& context) {
      Trainer trainer(context, context.options, context.dataset, 0);
      trainer.start_epoch(0);
      for (std::int64_t t = 0; t < 2; ++t) trainer.step(t);
      if (context.communicator.rank() > 0) return;
      const std::vector<std::string> products = context.device.facts().products;
      EXPECT_GE(products.size(), 2U);
      for (const std::string& product : products) {
        if (product.find("slow") != std::string::npos) slow += product + "\n";
      }
    });
    return slow;
  };
  own_options<models::RecVaeOptions>(options_.model).encoder_passes = 1;
  testing::for_each_trained_kind([&](const models::TrainedKind& kind) {
    options_.model.type = kind.type();
    for (const Precision precision :
         {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16, Precision::bf16x3}) {
      backend_.precision = precision;
      for (const int item_slices : {1, 2}) {
        SCOPED_TRACE(::testing::Message()
                     << vaecf::to_string(precision) << " " << item_slices << " item slices");
        options_.model.hidden = {24};
        options_.model.latent = 16;
        own_options<models::ElsaOptions>(options_.model).factors = 16;
        EXPECT_EQ(slow_products(item_slices), "");
        options_.model.hidden = {22};
        options_.model.latent = 11;
        own_options<models::ElsaOptions>(options_.model).factors = 11;
        EXPECT_NE(slow_products(item_slices), "");
      }
    }
  });
}

TEST_F(CudaEmulatedTraining, TrafficOfTheUpdateExcludesGradientsThatAreNotStored) {
  backend_.precision = Precision::bf16;
  double table_bytes = 0.0;  // of the gradient of the input or the output table, read and written
  double bytes = 0.0;
  const auto measure = [&](const run::Run& context) {
    Trainer trainer(context, context.options, context.dataset, 0);
    const auto table = trainer.model().tensors()[0];
    table_bytes = 8.0 * static_cast<double>(table.rows * table.columns);
    return bytes = trainer.facts().update_bytes;
  };
  options_.train.clip_gradient_norm = clips_nothing;
  const double apart = of_ranks(1, measure)[0];
  options_.train.clip_gradient_norm = 0.0;
  EXPECT_EQ(of_ranks(1, measure)[0], apart - table_bytes)
      << "the update of the output layer reads its gradient";
  with_cpu(measure);
  EXPECT_DOUBLE_EQ(bytes, apart / 34.0 * 32.0 - 2.0 * table_bytes) << "in fp32, and both layers are fused";
  with_cpu(measure, Precision::bf16);
  EXPECT_DOUBLE_EQ(bytes, apart / 34.0 * 32.0 - 2.0 * table_bytes + table_bytes / 8.0 * 2.0)
      << "only the output table has a 16-bit copy";
}

TEST_F(CudaEmulatedTraining, LaterEpochsAndValidationsDoNotAllocate) {
  options_.data.file = make("features.h5", {.validation = 4200, .features = true});
  on_ranks(1, [&](const run::Run& context) {
    Trainer trainer(context, context.options, context.dataset, context.device.facts().evaluation_batch);
    evaluate::Evaluator evaluator(context, context.dataset, "validation",
                                  {"ndcg@10", "recall@5", "coverage@10"});
    evaluator.prepare(trainer.model());
    std::vector<std::int64_t> allocations;
    train_epochs(trainer, 4, [&] {
      trainer.losses();
      evaluator.evaluate(trainer.model());
      allocations.push_back(cuda::emulator::runtime().allocations);
    });
    for (const std::int64_t total : allocations) EXPECT_EQ(total, allocations[0]);
  });
}

TEST_F(CudaEmulatedTraining, CurveInFp16DoesNotDependOnTheDivision) {
  backend_.precision = Precision::fp16;
  const RankResults one = run_as({});
  for (const Division& division : {Division{2}, {3}, {2, 1, sharded}, {4, 1, sharded}}) {
    SCOPED_TRACE(::testing::Message() << division);
    const RankResults many = run_as(division);
    expect_same_on_all_ranks(many);
    EXPECT_LE(difference(one.gradient[0], many.gradient[0]).relative, 1e-3);
    EXPECT_LE(difference(one.masters[0], many.masters[0]).relative, 5e-3);
  }
}

}  // namespace
}  // namespace vaecf::training
