#include "comm/worlds.hpp"

#include <gtest/gtest.h>
#include <vaecf/backend/backend.hpp>
#include <vaecf/comm/gradient_exchange.hpp>
#include <vaecf/comm/shards.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/make_cpu_backend.hpp"

namespace vaecf::comm {
namespace {

constexpr std::int64_t flat_size = 1003;

std::vector<float> gradient(int rank) {
  std::mt19937 random(static_cast<unsigned>(rank + 17));
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(flat_size);
  for (float& v : values) v = uniform(random) * std::exp2(10.0F * uniform(random));
  return values;
}

/// Exact in bf16, as are their sums over four ranks.
std::vector<float> small_integers(int rank) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < flat_size; ++i)
    values.push_back(static_cast<float>((rank * 7 + i * 3) % 19 - 9));
  return values;
}

std::vector<float> sum_over(int ranks, std::vector<float> (*values_of)(int)) {
  std::vector<double> sum(flat_size);
  for (int r = 0; r < ranks; ++r) {
    const auto theirs = values_of(r);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(theirs[i]);
  }
  return {sum.begin(), sum.end()};
}

/// All of the buffer in ranges of `step`, in one of three orders.
std::vector<Range> ranges_of(std::int64_t step, int order) {
  std::vector<Range> ranges;
  for (std::int64_t begin = 0; begin < flat_size; begin += step) {
    ranges.push_back({begin, std::min(flat_size, begin + step)});
  }
  if (order == 1) std::ranges::reverse(ranges);
  if (order == 2) std::shuffle(ranges.begin(), ranges.end(), std::mt19937(5));
  ranges.push_back({40, 40});  // an empty range is always ready
  return ranges;
}

std::unique_ptr<backend::Backend> make_cpu() {
  backend::BackendOptions options;
  options.device = "cpu";
  options.precision = backend::Precision::fp32;
  options.kernels = "portable";
  options.threads = 1;
  return cpu::make_cpu_backend(options);
}

/// One rank's buffers and its exchange.
struct Road {
  Road(Communicator& communicator, ExchangeMode mode, std::int64_t bucket)
      : comm(communicator),
        backend(make_cpu()),
        layout(backend->plan_parameters(
            std::vector<backend::TensorSpec>{{"a/weight", 40, 30, backend::TensorKind::matrix, true},
                                             {"a/bias", 1, 7, backend::TensorKind::bias, false}})),
        plan(flat_size, bucket, communicator.size()),
        exchange(communicator, *backend, plan, mode),
        gradients(backend->make_buffer(plan.padded_size())),
        master(backend->make_buffer(plan.shard_size())),
        parameters(backend->make_parameters(layout, plan.padded_size())) {}

  void fill(const std::vector<float>& values, const std::vector<Range>& ranges, bool overlap) {
    std::ranges::copy(values, gradients->data());
    exchange.begin(*gradients, overlap);
    for (const Range range : ranges) exchange.ready(range, backend->mark());
  }
  std::vector<float> sum() const { return {gradients->data(), gradients->data() + flat_size}; }
  std::vector<float> weights() const {
    const float* data = parameters->master().data();
    return {data, data + plan.padded_size()};
  }

  Communicator& comm;
  std::unique_ptr<backend::Backend> backend;
  backend::ParameterLayout layout;
  BucketPlan plan;
  GradientExchange exchange;
  std::unique_ptr<backend::FloatBuffer> gradients;
  std::unique_ptr<backend::FloatBuffer> master;
  std::unique_ptr<backend::Parameters> parameters;
};

std::vector<float> reduced(Road& road, const std::vector<float>& values, const std::vector<Range>& ranges,
                           bool overlap) {
  road.fill(values, ranges, overlap);
  for (std::int64_t b = 0; b < road.plan.buckets(); ++b) road.exchange.await_sum(b);
  road.exchange.finish();
  return road.sum();
}

/// A step of plain descent with rate 1 in the sharded mode; returns the weights.
std::vector<float> descended(Road& road, const std::vector<float>& values, const std::vector<Range>& ranges,
                             bool overlap) {
  road.fill(values, ranges, overlap);
  for (std::int64_t b = 0; b < road.plan.buckets(); ++b) {
    road.exchange.await_sum(b);
    const Range packed = road.plan.packed(b);
    for (std::int64_t i = packed.begin; i < packed.end; ++i) {
      road.master->data()[i] -= road.exchange.gradient_shard()->data()[i];
    }
    road.exchange.send_weights(b, *road.master, *road.parameters);
  }
  road.exchange.finish();
  return road.weights();
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void expect_same_on_all_ranks(Communicator& comm, const std::vector<float>& values) {
  auto first = values;
  comm.broadcast(std::span(first), 0);
  EXPECT_TRUE(same_bits(first, values)) << "rank " << comm.rank() << " of " << comm.size();
}

TEST(GradientExchange, SumsWhateverTheBucketsAndTheOrderOfReadiness) {
  on_worlds([](Communicator& comm) {
    const auto sum = sum_over(comm.size(), gradient);
    const auto mine = gradient(comm.rank());
    for (const std::int64_t bucket : {1L, 128L, 500L, 5000L}) {
      Road road(comm, {}, bucket);
      for (const std::int64_t step : {37L, 100L, 1003L}) {
        for (const int order : {0, 1, 2}) {
          const auto ranges = ranges_of(step, order);
          const auto overlapped = reduced(road, mine, ranges, true);
          const auto waited = reduced(road, mine, ranges, false);
          EXPECT_TRUE(same_bits(overlapped, waited))
              << "bucket " << bucket << " step " << step << " order " << order;
          for (std::size_t i = 0; i < sum.size(); ++i) ASSERT_NEAR(waited[i], sum[i], 1e-3) << i;
          expect_same_on_all_ranks(comm, waited);
        }
      }
    }
  });
}

TEST(GradientExchange, RanksMayFinishTheirPartsInDifferentOrders) {
  on_worlds([](Communicator& comm) {
    for (const bool bf16 : {false, true}) {
      Road road(comm, {.bf16_wire = bf16}, 64);
      const auto mine = gradient(comm.rank());
      const auto waited = reduced(road, mine, ranges_of(50, 0), false);
      auto ranges = ranges_of(50, 0);
      std::shuffle(ranges.begin(), ranges.end(), std::mt19937(static_cast<unsigned>(comm.rank())));
      EXPECT_TRUE(same_bits(waited, reduced(road, mine, ranges, true)));
    }
  });
}

TEST(GradientExchange, ANarrowWireSumsWhatItCanHoldAndRoundsTheRest) {
  on_worlds([](Communicator& comm) {
    Road road(comm, {.bf16_wire = true}, 200);
    for (const bool overlap : {true, false}) {
      EXPECT_EQ(reduced(road, small_integers(comm.rank()), ranges_of(90, 2), overlap),
                sum_over(comm.size(), small_integers));
      const auto rounded = reduced(road, gradient(comm.rank()), ranges_of(90, 2), overlap);
      expect_same_on_all_ranks(comm, rounded);
      // Each term and the sum lose up to 2^-8 of themselves; a world of one loses nothing.
      std::vector<double> sizes(flat_size);
      for (int r = 0; r < comm.size(); ++r) {
        const auto theirs = gradient(r);
        for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i] += std::abs(static_cast<double>(theirs[i]));
      }
      const auto sum = sum_over(comm.size(), gradient);
      const double share = comm.size() == 1 ? 0.0 : 0x1.02p-7;
      for (std::size_t i = 0; i < sum.size(); ++i)
        ASSERT_LE(std::abs(rounded[i] - sum[i]), share * sizes[i] + 1e-30);
    }
  });
}

TEST(GradientExchange, EachRankGetsItsPartAndAllGetTheWeights) {
  on_worlds([](Communicator& comm) {
    const auto sum = sum_over(comm.size(), small_integers);
    for (const bool bf16 : {false, true}) {
      for (const std::int64_t bucket : {1L, 300L, 5000L}) {
        for (const bool overlap : {true, false}) {
          SCOPED_TRACE(testing::Message()
                       << "bf16 " << bf16 << " bucket " << bucket << " overlap " << overlap);
          Road road(comm, {.sharded = true, .bf16_wire = bf16}, bucket);
          const auto weights = descended(road, small_integers(comm.rank()), ranges_of(111, 1), overlap);
          for (std::int64_t b = 0; b < road.plan.buckets(); ++b) {
            const Range part = road.plan.part(b, comm.rank());
            const Range packed = road.plan.packed(b);
            for (std::int64_t i = 0; i < part.size(); ++i) {
              const std::int64_t flat = part.begin + i;
              const float want = flat < flat_size ? sum[static_cast<std::size_t>(flat)] : 0.0F;
              ASSERT_EQ(road.exchange.gradient_shard()->data()[packed.begin + i], want) << "element " << flat;
            }
          }
          for (std::size_t i = 0; i < weights.size(); ++i) {
            ASSERT_EQ(weights[i], i < sum.size() ? -sum[i] : 0.0F) << "element " << i;
          }
        }
      }
    }
  });
}

TEST(GradientExchange, ShardedWeightsAreTheSameOnAllRanksWhateverTheOverlap) {
  on_worlds([](Communicator& comm) {
    for (const bool bf16 : {false, true}) {
      Road overlapped(comm, {.sharded = true, .bf16_wire = bf16}, 130);
      Road waited(comm, {.sharded = true, .bf16_wire = bf16}, 130);
      for (int step = 0; step < 3; ++step) {
        const auto values = gradient(comm.rank() + 4 * step);
        const auto weights = descended(overlapped, values, ranges_of(60, 2), true);
        EXPECT_TRUE(same_bits(weights, descended(waited, values, ranges_of(200, 0), false)))
            << "bf16 " << bf16;
        expect_same_on_all_ranks(comm, weights);
      }
      // The masters of the owner, whose rounding is what everybody computes with.
      auto masters = overlapped.backend->make_buffer(overlapped.plan.padded_size());
      unpack_shards(comm, *overlapped.backend, overlapped.plan, *overlapped.master, *masters);
      const auto weights = overlapped.weights();
      std::int64_t rounded = 0;
      for (std::size_t i = 0; i < weights.size(); ++i) {
        const float master = masters->data()[i];
        ASSERT_EQ(weights[i], bf16 ? round_to_bf16(master) : master) << i;
        if (weights[i] != master) ++rounded;
      }
      EXPECT_EQ(rounded > 0, bf16);
    }
  });
}

TEST(GradientExchange, AnEmptyBufferIsExchangedAtOnce) {
  on_worlds([](Communicator& comm) {
    const auto backend = make_cpu();
    const BucketPlan plan(0, 64, comm.size());
    const auto nothing = backend->make_buffer(0);
    for (const bool sharded : {false, true}) {
      GradientExchange exchange(comm, *backend, plan, {.sharded = sharded, .bf16_wire = true});
      exchange.begin(*nothing, true);
      exchange.finish();
      exchange.begin(*nothing, false);
      exchange.finish();
    }
  });
}

TEST(Shards, PackAndUnpackGiveTheBufferBack) {
  on_worlds([](Communicator& comm) {
    const auto backend = make_cpu();
    const BucketPlan plan(flat_size, 256, comm.size());
    const auto flat = backend->make_buffer(plan.padded_size());
    const auto back = backend->make_buffer(plan.padded_size());
    const auto shard = backend->make_buffer(plan.shard_size());
    for (std::int64_t i = 0; i < flat_size; ++i) flat->data()[i] = static_cast<float>(i + 1);
    pack_shard(*backend, plan, comm.rank(), *flat, *shard);
    EXPECT_EQ(shard->data()[0], static_cast<float>(plan.part(0, comm.rank()).begin + 1));
    unpack_shards(comm, *backend, plan, *shard, *back);
    EXPECT_EQ(
        std::memcmp(flat->data(), back->data(), static_cast<std::size_t>(plan.padded_size()) * sizeof(float)),
        0);
    const auto small = backend->make_buffer(plan.shard_size() - 1);
    EXPECT_THROW(pack_shard(*backend, plan, comm.rank(), *flat, *small), std::logic_error);
    EXPECT_THROW(unpack_shards(comm, *backend, plan, *small, *back), std::logic_error);
  });
}

// None of what follows reaches another rank, so every rank may fail alone.
TEST(GradientExchange, RangesThatDoNotCoverTheBufferOnceAreRefused) {
  on_worlds([](Communicator& comm) {
    Road road(comm, {}, 64);
    GradientExchange& exchange = road.exchange;
    EXPECT_THROW(exchange.ready({0, 1}, {}), std::logic_error);
    EXPECT_THROW(exchange.await_sum(0), std::logic_error);
    EXPECT_THROW(exchange.finish(), std::logic_error);
    EXPECT_THROW(exchange.begin(*road.backend->make_buffer(flat_size - 1), false), std::logic_error);
    exchange.begin(*road.gradients, false);
    EXPECT_THROW(exchange.begin(*road.gradients, false), std::logic_error);
    for (const Range bad : {Range{-1, 2}, Range{1000, 1004}, Range{5, 4}}) {
      EXPECT_THROW(exchange.ready(bad, {}), std::logic_error) << bad.begin;
    }
    exchange.ready({200, 500}, {});
    for (const Range again : {Range{400, 600}, Range{0, 201}, Range{300, 301}, Range{0, flat_size}}) {
      EXPECT_THROW(exchange.ready(again, {}), std::logic_error) << again.begin;
    }
    exchange.ready({0, 200}, {});
    exchange.ready({500, flat_size - 1}, {});
    EXPECT_THROW(exchange.await_sum(0), std::logic_error) << "the last element is missing";
    EXPECT_THROW(exchange.finish(), std::logic_error) << "the last element is missing";
  });
}

TEST(GradientExchange, BucketsComeInOrder) {
  on_worlds([](Communicator& comm) {
    Road road(comm, {.sharded = true}, 64);
    GradientExchange& exchange = road.exchange;
    const auto send = [&](std::int64_t b) { exchange.send_weights(b, *road.master, *road.parameters); };
    EXPECT_THROW(GradientExchange(comm, *road.backend, BucketPlan(10, 64, comm.size() + 1), {}),
                 std::invalid_argument);
    EXPECT_THROW(exchange.begin(*road.backend->make_buffer(flat_size), false), std::logic_error)
        << "no padding";
    EXPECT_THROW(send(0), std::logic_error);
    exchange.begin(*road.gradients, true);
    exchange.ready({0, flat_size}, {});
    EXPECT_THROW(exchange.await_sum(1), std::logic_error);
    EXPECT_THROW(send(0), std::logic_error);
    exchange.await_sum(0);
    EXPECT_THROW(exchange.await_sum(0), std::logic_error);
    EXPECT_THROW(send(1), std::logic_error);
    EXPECT_THROW(exchange.send_weights(0, *road.backend->make_buffer(1), *road.parameters), std::logic_error);
    send(0);
    EXPECT_THROW(send(0), std::logic_error);
    EXPECT_THROW(exchange.finish(), std::logic_error);
    for (std::int64_t b = 1; b < road.plan.buckets(); ++b) {
      exchange.await_sum(b);
      send(b);
    }
    EXPECT_THROW(send(road.plan.buckets()), std::logic_error);
    exchange.finish();
    Road replicated(comm, {}, 64);
    replicated.fill(gradient(0), {{0, flat_size}}, false);
    replicated.exchange.await_sum(0);
    EXPECT_THROW(replicated.exchange.send_weights(0, *road.master, *road.parameters), std::logic_error);
  });
}

}  // namespace
}  // namespace vaecf::comm
