#include "training/gradient_exchange.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "comm/communicators.hpp"
#include "device/cpu/device.hpp"
#include "training/bucket_plan.hpp"

namespace vaecf::training {
namespace {

using comm::Communicator, comm::for_each_communicator, comm::same_bits, comm::signed_inputs, comm::sums;

constexpr std::int64_t flat_size = 1003;

std::vector<float> gradient(int rank) {
  std::mt19937 random(static_cast<unsigned>(rank + 17));
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(flat_size);
  for (float& v : values) v = uniform(random) * std::exp2(10.0F * uniform(random));
  return values;
}

std::vector<float> sum_of_gradients(int ranks) {
  std::vector<double> sum(flat_size);
  for (int r = 0; r < ranks; ++r) {
    const auto theirs = gradient(r);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(theirs[i]);
  }
  return {sum.begin(), sum.end()};
}

/// Returns ranges of `step` elements that cover the buffer: ascending if `order` is 0, descending if 1, else
/// shuffled with seed `order`.
std::vector<Range> ranges_of(std::int64_t step, int order) {
  std::vector<Range> ranges;
  for (std::int64_t begin = 0; begin < flat_size; begin += step) {
    ranges.push_back({begin, std::min(flat_size, begin + step)});
  }
  if (order == 1) std::ranges::reverse(ranges);
  if (order >= 2) std::shuffle(ranges.begin(), ranges.end(), std::mt19937(static_cast<unsigned>(order)));
  ranges.push_back({40, 40});  // an empty range
  return ranges;
}

/// The weights and the GradientExchange of one rank.
struct Rank {
  Rank(Communicator& communicator, ExchangeMode mode, std::int64_t bucket)
      : device(cpu::make_device(
            {device::DeviceChoice::cpu, device::Precision::fp32, device::Kernels::portable, 1})),
        plan(flat_size, bucket, communicator.size()),
        weights(device->make_parameters(device->plan_parameters(std::vector<device::TensorSpec>{
                                            {"a/weight", 40, 25, device::TensorKind::matrix, true}}),
                                        plan.padded_size())),
        exchange(communicator, *device, {{&communicator, plan}}, mode, weights) {}

  void start(const std::vector<float>& values, const std::vector<Range>& ranges) {
    std::ranges::fill(view(gradients, {0, plan.padded_size()}), 0.0F);
    std::ranges::copy(values, gradients.data());
    exchange.begin();
    for (const Range range : ranges)
      if (exchange.ready()) exchange.ready()(range, device->record_event());
  }
  /// Returns the sum of all buckets, as every rank of a replicated optimizer receives it.
  std::vector<float> sum(const std::vector<float>& values, const std::vector<Range>& ranges) {
    start(values, ranges);
    for (std::int64_t part = 0; part < exchange.parts(); ++part) exchange.wait_sum(part);
    exchange.finish();
    return {gradients.data(), gradients.data() + flat_size};
  }
  /// Returns the weights after a step of gradient descent with rate 1.
  std::vector<float> descend(const std::vector<float>& values, const std::vector<Range>& ranges) {
    start(values, ranges);
    for (std::int64_t part = 0; part < exchange.parts(); ++part) {
      const UpdatePart own = exchange.wait_sum(part);
      for (std::int64_t i = own.elements.begin; i < own.elements.end; ++i) {
        weights.master().data()[i] -= gradients.data()[i];
        updated.push_back(i + own.moments_offset);
      }
      exchange.gather_weights(own);
    }
    exchange.finish();
    const float* data = weights.master().data();
    return {data, data + flat_size};
  }

  std::unique_ptr<device::Device> device;
  BucketPlan plan;
  device::Parameters weights;
  GradientExchange exchange;
  device::Buffer& gradients = exchange.gradients();
  std::vector<std::int64_t> updated;  ///< indices of the moments of all updated elements
};

void expect_same_on_all_ranks(Communicator& comm, const std::vector<float>& values) {
  auto first = values;
  comm.broadcast(std::span(first), 0);
  EXPECT_TRUE(same_bits(first, values)) << "rank " << comm.rank() << " of " << comm.size();
}

TEST(GradientExchange, SumsForAnyBucketsAndOrderOfReadiness) {
  for_each_communicator([](Communicator& comm) {
    const auto sum = sum_of_gradients(comm.size());
    const auto mine = gradient(comm.rank());
    for (const bool bf16 : {false, true}) {
      for (const std::int64_t bucket : {1L, 128L, 500L, 5000L}) {
        Rank overlapping(comm, {.bf16_comm = bf16, .overlap = true}, bucket);
        const auto waited = Rank(comm, {.bf16_comm = bf16}, bucket).sum(mine, ranges_of(flat_size, 0));
        for (std::size_t i = 0; i < sum.size() && !bf16; ++i) ASSERT_NEAR(waited[i], sum[i], 1e-3) << i;
        expect_same_on_all_ranks(comm, waited);
        for (const std::int64_t step : {37L, 100L, 1003L}) {
          for (const int order : {0, 1, 2, 3 + comm.rank()}) {  // the last one differs between ranks
            EXPECT_TRUE(same_bits(overlapping.sum(mine, ranges_of(step, order)), waited))
                << "bucket " << bucket << " step " << step << " order " << order;
          }
        }
      }
    }
  });
}

TEST(GradientExchange, Bf16CommunicationRoundsEachTermAndTheSum) {
  for_each_communicator([](Communicator& comm) {
    for (const bool overlap : {true, false}) {
      Rank rank(comm, {.bf16_comm = true, .overlap = overlap}, 200);
      EXPECT_EQ(rank.sum(signed_inputs<float>(comm.rank(), flat_size), ranges_of(90, 2)),
                sums<float>(comm.size(), flat_size));
      const auto rounded = rank.sum(gradient(comm.rank()), ranges_of(90, 2));
      expect_same_on_all_ranks(comm, rounded);
      // Rounding each term and the sum has a relative error of up to 2^-8; a single rank does not round.
      std::vector<double> sizes(flat_size);
      for (int r = 0; r < comm.size(); ++r) {
        const auto theirs = gradient(r);
        for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i] += std::abs(static_cast<double>(theirs[i]));
      }
      const auto sum = sum_of_gradients(comm.size());
      const double share = comm.size() == 1 ? 0.0 : 0x1.02p-7;
      for (std::size_t i = 0; i < sum.size(); ++i)
        ASSERT_LE(std::abs(rounded[i] - sum[i]), share * sizes[i] + 1e-30);
    }
  });
}

TEST(GradientExchange, ShardedUpdateReachesAllRanks) {
  for_each_communicator([](Communicator& comm) {
    const auto sum = sums<float>(comm.size(), flat_size);
    for (const bool bf16 : {false, true}) {
      for (const std::int64_t bucket : {1L, 300L, 5000L}) {
        for (const bool overlap : {true, false}) {
          SCOPED_TRACE(testing::Message()
                       << "bf16 " << bf16 << " bucket " << bucket << " overlap " << overlap);
          Rank rank(comm, {.sharded = true, .bf16_comm = bf16, .overlap = overlap}, bucket);
          const auto weights = rank.descend(signed_inputs<float>(comm.rank(), flat_size), ranges_of(111, 1));
          for (std::size_t i = 0; i < weights.size(); ++i) ASSERT_EQ(weights[i], -sum[i]) << "element " << i;
          // Exactly one rank updates each element, and stores its moments at a unique index.
          const auto all = comm.all_reduce(static_cast<std::int64_t>(rank.updated.size()));
          EXPECT_EQ(all, flat_size);
          std::ranges::sort(rank.updated);
          EXPECT_EQ(std::ranges::adjacent_find(rank.updated), rank.updated.end());
          if (!rank.updated.empty()) {
            EXPECT_GE(rank.updated.front(), 0);
            EXPECT_LT(rank.updated.back(), rank.exchange.moment_elements());
          }
        }
      }
    }
  });
}

TEST(GradientExchange, ShardedWeightsAreEqualOnAllRanksWithAndWithoutOverlap) {
  for_each_communicator([](Communicator& comm) {
    for (const bool bf16 : {false, true}) {
      Rank overlapping(comm, {.sharded = true, .bf16_comm = bf16, .overlap = true}, 130);
      Rank waiting(comm, {.sharded = true, .bf16_comm = bf16}, 130);
      for (int step = 0; step < 3; ++step) {
        const auto values = gradient(comm.rank() + 4 * step);
        const auto weights = overlapping.descend(values, ranges_of(60, 2));
        EXPECT_TRUE(same_bits(weights, waiting.descend(values, ranges_of(200, 0)))) << "bf16 " << bf16;
        expect_same_on_all_ranks(comm, weights);
      }
      // With bf16 communication the owner stores the exact weights, and all ranks compute with rounded ones.
      const bool rounds = bf16 && comm.size() > 1;
      ASSERT_EQ(overlapping.exchange.master_shard() != nullptr, rounds);
      if (!rounds) return;
      auto exact = overlapping.device->make_buffer(overlapping.plan.padded_size());
      overlapping.exchange.all_gather_shards(*overlapping.exchange.master_shard(), exact);
      std::int64_t rounded = 0;
      for (std::int64_t i = 0; i < flat_size; ++i) {
        const float weight = overlapping.weights.master().data()[i];
        ASSERT_EQ(weight, round_to_bf16(exact.data()[i])) << i;
        if (weight != exact.data()[i]) ++rounded;
      }
      EXPECT_GT(rounded, 0);
    }
  });
}

TEST(GradientExchange, EachBucketIsUpdatedBeforeTheNextSum) {
  for_each_communicator([](Communicator& comm) {
    if (comm.size() == 1) return;
    const auto mine = signed_inputs<float>(comm.rank(), flat_size);
    const auto sum = sums<float>(comm.size(), flat_size);
    for (const bool bf16 : {false, true}) {
      for (const std::int64_t bucket : {1L, 300L, 5000L}) {
        Rank overlapping(comm, {.bf16_comm = bf16, .overlap = true}, bucket);
        const auto weights = overlapping.descend(mine, ranges_of(111, 2));
        for (std::size_t i = 0; i < weights.size(); ++i) ASSERT_EQ(weights[i], -sum[i]) << "element " << i;
        EXPECT_EQ(std::ssize(overlapping.updated), flat_size);
      }
      Rank waiting(comm, {.bf16_comm = bf16}, 300);
      waiting.start(mine, {});
      ASSERT_EQ(waiting.exchange.parts(), waiting.plan.buckets());
      std::int64_t summed = 0;
      for (std::int64_t part = 0; part < waiting.exchange.parts(); ++part) {
        const UpdatePart own = waiting.exchange.wait_sum(part);
        EXPECT_EQ(own.elements.begin, summed);
        summed = own.elements.end;
        for (std::int64_t i = 0; i < flat_size; ++i)
          ASSERT_EQ(waiting.gradients.data()[i], (i < summed ? sum : mine)[static_cast<std::size_t>(i)]) << i;
      }
      EXPECT_EQ(summed, flat_size);
    }
  });
}

// Otherwise a rank would start its reductions and all-gathers in another order than the others. Nothing is
// sent to another rank here.
TEST(GradientExchange, IncompleteGradientAndSmallWeightsThrow) {
  for_each_communicator([](Communicator& comm) {
    if (comm.size() == 1) return;
    Rank rank(comm, {.sharded = true, .overlap = true}, 64);
    rank.exchange.begin();
    EXPECT_THROW(rank.exchange.wait_sum(0), std::logic_error);
    device::Parameters small =
        rank.device->make_parameters(rank.weights.layout(), rank.plan.padded_size() - 1);
    EXPECT_THROW(GradientExchange(comm, *rank.device, {{&comm, rank.plan}}, {}, small),
                 std::invalid_argument);
  });
}

// Whatever the parts of the ranks are: the sum of the squares of all elements, each once.
TEST(GradientExchange, StatisticsIncludeEachElementOnce) {
  for_each_communicator([](Communicator& comm) {
    for (const bool sharded : {false, true}) {
      Rank rank(comm, {.sharded = sharded}, 300);
      const auto state = rank.device->make_step_state();
      device::StepParams params;
      params.rule.clip_norm = 1.0F;
      rank.device->begin_step(params, *state);
      std::vector<float> values(flat_size);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = comm.rank() == 0 ? static_cast<float>(i % 7) : 0.0F;
      rank.start(values, {});
      rank.exchange.all_reduce_stats(*state);
      double squares = 0.0;
      for (const float value : values) squares += static_cast<double>(value) * value;
      EXPECT_FLOAT_EQ(rank.device->gradient_stats(*state).data()[1],
                      static_cast<float>(comm.all_reduce(squares)));
    }
  });
}

TEST(GradientExchange, UnpackReversesPack) {
  for_each_communicator([](Communicator& comm) {
    Rank rank(comm, {.sharded = true}, 256);
    auto back = rank.device->make_buffer(rank.plan.padded_size());
    auto packed = rank.device->make_buffer(rank.plan.shard_size());
    for (std::int64_t i = 0; i < flat_size; ++i) rank.gradients.data()[i] = static_cast<float>(i + 1);
    rank.exchange.pack(rank.gradients, packed);
    EXPECT_EQ(packed.data()[0], static_cast<float>(rank.plan.part(0, comm.rank()).begin + 1));
    rank.exchange.all_gather_shards(packed, back);
    EXPECT_TRUE(std::ranges::equal(view(rank.gradients, {0, flat_size}), view(back, {0, flat_size})));
  });
}

}  // namespace
}  // namespace vaecf::training
