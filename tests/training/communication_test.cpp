// Effects of how ranks communicate: none, or only those of rounding. The gradient norm is that of all ranks.
#include <vaecf/base/half_precision.hpp>

#include "device/cpu/device.hpp"
#include "models/recvae/recvae.hpp"
#include "training/multi_rank_fixture.hpp"

namespace vaecf::training {
namespace {

constexpr Division served{4, 1, replicated, 2};  // CPUs only

class Sharded : public MultiRankTest {
 protected:
  RankResults run_in(comm::CommDtype wire, const Division& division) {
    options_.distributed.comm_dtype = wire;
    return run_as(division);
  }
};

TEST_F(Sharded, SingleRankIsBitwiseEqualToReplicated) {
  const RankResults one = run_as({});
  for (const auto wire : wires) {
    const RankResults shards = run_in(wire, {1, 1, sharded});
    EXPECT_EQ(shards.weights[0], one.weights[0]) << to_string(wire);
    EXPECT_EQ(shards.moments[0], one.moments[0]) << to_string(wire);
  }
}

// bf16 communication rounds each rank's term and the sum with a relative error of up to 2^-8. Adam
// normalizes, so where terms cancel, single weights may move in another direction for some steps. Observed:
// 0.004, and once the learning rate.
TEST_F(Sharded, Bf16CommunicationStaysClose) {
  const RankResults wide = run_as({});
  std::vector<Division> divisions = {{2},   {3}, {4}, {2, 1, sharded}, {3, 1, sharded}, {4, 1, sharded},
                                     {4, 2}};
  if (!on_emulator) divisions.push_back(served);
  for (const Division& division : divisions) {
    SCOPED_TRACE(::testing::Message() << division);
    const RankResults bf16 = run_in(comm::CommDtype::bf16, division);
    expect_same_on_all_ranks(bf16);
    const Difference gradient = difference(wide.gradient[0], bf16.gradient[0]);
    EXPECT_LE(gradient.relative, 0x1p-7);
    EXPECT_GT(gradient.relative, 1e-5) << "no gradient was rounded";
    const Difference weights = difference(wide.masters[0], bf16.masters[0]);
    EXPECT_LE(weights.relative, 1e-2);
    EXPECT_LE(weights.largest, 2 * options_.optimizer.learning_rate);
  }
}

TEST_F(Sharded, AllRanksComputeWithRoundedMasters) {
  for (const Division& division : {Division{3, 1, sharded}, served}) {
    if (division.servers > 0 && on_emulator) continue;
    const RankResults bf16 = run_in(comm::CommDtype::bf16, division);
    std::int64_t rounded = 0;
    for (const auto& [name, masters] : bf16.masters[0]) {
      const std::vector<float>& weights = bf16.weights[0].at(name);
      for (std::size_t i = 0; i < masters.size(); ++i) {
        ASSERT_EQ(weights[i], round_to_bf16(masters[i])) << name << " " << i;
        if (weights[i] != masters[i]) ++rounded;
      }
    }
    EXPECT_GT(rounded, 100);
    const RankResults wide = run_in(comm::CommDtype::fp32, division);
    EXPECT_EQ(wide.weights[0], wide.masters[0]);
  }
}

/// A device that reports fp16, and has an overflow in this rank's part of the gradient of one step.
class Overflowing : public cpu::Device {
 public:
  Overflowing(std::uint32_t step, bool here)
      : cpu::Device(1, device::Precision::fp32, true), step_(step), here_(here) {}

  device::DeviceFacts facts() const override {
    device::DeviceFacts facts = cpu::Device::facts();
    facts.precision = device::Precision::fp16;
    return facts;
  }
  void accumulate_gradient_stats(const device::Buffer&, Range, device::StepState& step) override {
    if (here_ && device::own<cpu::StepState>(step).params.step == step_)
      gradient_stats(step).data()[0] += 1.0F;
  }
  void update(std::span<const device::UpdateRange> ranges, const device::Buffer& gradients,
              device::Moments moments, device::Parameters& parameters,
              const device::StepState& step) override {
    if (device::own<cpu::StepState>(step).gradient_stats.data()[0] > 0.0F) return;
    cpu::Device::update(ranges, gradients, moments, parameters, step);
  }

 private:
  std::uint32_t step_;
  bool here_;
};

// A replicated gradient is equal on all ranks, but a non-finite loss may occur on one rank only.
TEST_F(Sharded, OverflowOnOneRankSkipsTheUpdateOnAll) {
  for (const auto optimizer : {sharded, replicated}) {
    options_.distributed.optimizer = optimizer;
    const auto device_of = [](int rank) { return Overflowing(1, rank == 2); };
    on_devices(3, device_of, [&](const run::Run& run) {
      SCOPED_TRACE(::testing::Message() << to_string(optimizer) << ", rank " << run.communicator.rank());
      Trainer trainer(run, run.options, run.dataset, 0);
      trainer.start_epoch(0);
      std::vector<Tensors> weights;
      for (std::int64_t t = 0; t < 4; ++t) {
        trainer.step(t);
        weights.push_back(weights_of(trainer.model()));
      }
      EXPECT_EQ(weights[0], weights[1]);
      EXPECT_NE(weights[1], weights[2]);
      EXPECT_NE(weights[2], weights[3]);
    });
  }
}

TEST_F(Sharded, Bf16CopiesFollowTheMasters) {
  backend_.precision = device::Precision::bf16;  // GEMMs read bf16 copies of the weights
  const RankResults whole = run_as({2});
  expect_same_curve(whole, run_as({2, 1, sharded}));
}

// Thread ranks always sum in rank order, so bucket boundaries do not change sums.
// The models differ in the order of their gradients: two tables and layers, a single table, two parameter
// groups.
TEST_F(MultiRankTest, OverlapAndBucketSizeHaveNoEffect) {
  for (const ModelType type : {ModelType::mult_vae, ModelType::elsa, ModelType::recvae}) {
    options_.model.type = type;
    own_options<models::RecVaeOptions>(options_.model).encoder_passes = 1;
    for (const auto& [division, wire] :
         {std::pair{Division{3}, comm::CommDtype::fp32},
          {Division{4, 2}, comm::CommDtype::fp32},
          {Division{2, 2}, comm::CommDtype::fp32},  // tables with fused updates
          {Division{3, 1, sharded}, comm::CommDtype::fp32},
          {Division{3, 1, sharded}, comm::CommDtype::bf16}}) {
      SCOPED_TRACE(::testing::Message() << vaecf::to_string(type) << " " << division << to_string(wire));
      options_.distributed.comm_dtype = wire;
      set({"distributed.overlap=off", "distributed.bucket_mib=0.005"});
      const RankResults off = run_as(division, 8);
      set({"distributed.overlap=on", "distributed.bucket_mib=0.001"});
      EXPECT_EQ(off.weights[0], run_as(division, 8).weights[0]);
    }
  }
}

// One bucket, which is updated after its sum, and several, each of which is updated while the next are
// summed.
TEST_F(MultiRankTest, SixteenRanksUpdateBucketByBucket) {
  options_.model.hidden = {40};
  const RankResults alone = run_as({}, 4);
  for (const auto optimizer : {replicated, sharded}) {
    SCOPED_TRACE(::testing::Message() << to_string(optimizer));
    set({"distributed.overlap=off", "distributed.bucket_mib=1"});
    const RankResults whole = run_as({16, 1, optimizer}, 4);
    set({"distributed.overlap=on", "distributed.bucket_mib=0.001"});
    const RankResults buckets = run_as({16, 1, optimizer}, 4);
    expect_same_curve(alone, buckets);
    EXPECT_EQ(whole.masters[0], buckets.masters[0]);
    EXPECT_EQ(whole.moments[0], buckets.moments[0]);
    // All gradients come before the first update.
    options_.train.clip_gradient_norm = 0.4;
    const RankResults clipped = run_as({16, 1, optimizer}, 4);
    EXPECT_NE(clipped.masters[0], buckets.masters[0]);
    expect_same_curve(run_as({}, 4), clipped);
    options_.train.clip_gradient_norm = 0.0;
  }
}

TEST_F(MultiRankTest, ParameterServerComputesOnCpusOnly) {
  divide(Division{2, 1, replicated, 1});
  on_ranks(2, [](const run::Run& run) {
    if (on_emulator)
      expect_error<InputError>({"computes on cuda in fp32; set device to cpu"},
                               [&] { run::validate_run(run); });
    else
      EXPECT_NO_THROW(run::validate_run(run));
  });
}

constexpr double rate = 0.05;
constexpr double clip_norm = 0.4;  // gradients of these runs have norms from 0.5 to 2

/// Tests clipping with gradient descent, whose updates are proportional to the gradient.
class Clipping : public MultiRankTest {
 protected:
  void SetUp() override {
    MultiRankTest::SetUp();
    options_.optimizer.type = device::OptimizerKind::sgd;
    options_.optimizer.learning_rate = rate;
  }
};

TEST_F(Clipping, LargeClipNormHasNoEffect) {
  for (const auto optimizer : {replicated, sharded}) {
    const auto weights_with = [&](double clip) {
      options_.train.clip_gradient_norm = clip;
      return run_as({2, 1, optimizer}).masters[0];
    };
    const Tensors off = weights_with(0.0);
    EXPECT_EQ(weights_with(1e6), off) << to_string(optimizer);
    EXPECT_NE(weights_with(clip_norm), off) << to_string(optimizer);
  }
}

TEST_F(Clipping, NormOfUpdatesIsLimited) {
  for (const Division& division : {Division{1}, {3}, {1, 1, sharded}, {3, 1, sharded}}) {
    SCOPED_TRACE(::testing::Message() << division);
    divide(division);
    for (const double clip : {0.0, clip_norm}) {
      options_.train.clip_gradient_norm = clip;
      const double longest = of_ranks(division.ranks, [&](const run::Run& run) {
        double squares_of_longest = 0.0;
        Trainer trainer(run, run.options, run.dataset, 0);
        trainer.start_epoch(0);
        const auto weights = [&] { return read_all(trainer, StateTensor::weights); };
        Tensors before = weights();
        for (std::int64_t t = 0; t < trainer.steps_per_epoch(); ++t) {
          trainer.step(t);
          Tensors after = weights();
          double squares = 0.0;
          for (const auto& [name, values] : after) {
            for (std::size_t i = 0; i < values.size(); ++i)
              squares += std::pow(static_cast<double>(values[i]) - before.at(name)[i], 2);
          }
          before = std::move(after);
          squares_of_longest = std::max(squares_of_longest, squares);
        }
        return std::sqrt(squares_of_longest);
      })[0];
      // The tolerance is the rounding of fp32 weights.
      if (clip > 0.0) {
        EXPECT_NEAR(longest, rate * clip_norm, 1e-4 * rate * clip_norm);
      } else {
        EXPECT_GT(longest, 1.2 * rate * clip_norm) << "no gradient needs clipping";
      }
    }
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

TEST_F(Deterministic, TwoRunsWithAnyProducts) {
  for (const auto& [kernels, precision] : {std::pair{device::Kernels::portable, device::Precision::fp32},
                                           {device::Kernels::automatic, device::Precision::fp32},
                                           {device::Kernels::automatic, device::Precision::bf16}}) {
    backend_.kernels = kernels;
    backend_.precision = precision;
    expect_same_bits_twice(1);
  }
}

TEST_F(Deterministic, TwoRunsOnThreeRanks) {
  options_.train.clip_gradient_norm = 0.1;
  for (const auto optimizer : {replicated, sharded}) {
    options_.distributed.optimizer = optimizer;
    for (const auto wire : wires) {
      options_.distributed.comm_dtype = wire;
      SCOPED_TRACE(::testing::Message() << to_string(optimizer) << ", " << to_string(wire));
      expect_same_bits_twice(3);
    }
  }
}

}  // namespace
}  // namespace vaecf::training
