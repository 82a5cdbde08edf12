// Tests the collectives of every kind of communicator. Inputs are small integers, which are exact in bf16
// too, so that results must equal the serial ones bitwise. Tests of rounding use other inputs.
#include <vaecf/base/host.hpp>
#include <vaecf/comm/collective.hpp>
#include <vaecf/comm/collective_checks.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/usable_cores.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/communicators.hpp"

namespace vaecf::comm {
namespace {

/// Returns inputs that are not negative, and small enough for sums of bytes.
template <class T>
std::vector<T> unsigned_inputs(int rank, std::int64_t count) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<T>(signed_input(rank, i) + 9));
  return values;
}

/// Returns the serial reduction.
template <class T>
std::vector<T> expected(int ranks, std::int64_t count, Reduction reduction) {
  std::vector<T> total = unsigned_inputs<T>(0, count);
  for (int r = 1; r < ranks; ++r) {
    const std::vector<T> theirs = unsigned_inputs<T>(r, count);
    for (std::size_t i = 0; i < total.size(); ++i) {
      if (reduction == Reduction::sum) total[i] = static_cast<T>(total[i] + theirs[i]);
      if (reduction == Reduction::max) total[i] = std::max(total[i], theirs[i]);
      if (reduction == Reduction::min) total[i] = std::min(total[i], theirs[i]);
    }
  }
  return total;
}

/// Returns the inputs of all ranks in rank order.
template <class T>
std::vector<T> gathered_inputs(int ranks, std::int64_t count) {
  std::vector<T> all;
  for (int r = 0; r < ranks; ++r) {
    const auto theirs = signed_inputs<T>(r, count);
    all.insert(all.end(), theirs.begin(), theirs.end());
  }
  return all;
}

template <class T>
std::span<T> part_of(std::vector<T>& all, int rank, std::int64_t count) {
  return std::span(all).subspan(static_cast<std::size_t>(rank * count), static_cast<std::size_t>(count));
}

/// Runs `body` with message_sizes() on every communicator.
void for_each_size(const std::function<void(Communicator&, std::int64_t count)>& body) {
  for_each_communicator([&](Communicator& comm) {
    for (const std::int64_t count : message_sizes(comm.size())) {
      SCOPED_TRACE(testing::Message() << count << " elements on " << comm.size() << " ranks");
      body(comm, count);
    }
  });
}

template <class T>
void check_all_reduce() {
  for_each_size([](Communicator& comm, std::int64_t count) {
    for (const Reduction reduction : {Reduction::sum, Reduction::max, Reduction::min}) {
      auto values = unsigned_inputs<T>(comm.rank(), count);
      comm.all_reduce(std::span(values), reduction);
      EXPECT_EQ(values, expected<T>(comm.size(), count, reduction));
    }
  });
}

TEST(Collectives, AllReduceOfAnyType) {
  check_all_reduce<float>();
  check_all_reduce<double>();
  check_all_reduce<std::int64_t>();
  check_all_reduce<std::uint8_t>();
}

TEST(Collectives, AllReduceOfOneValueIsExactBeyond53Bits) {
  for_each_communicator([](Communicator& comm) {
    const std::int64_t large = (std::int64_t{1} << 53) + 1;
    EXPECT_EQ(comm.all_reduce(large + comm.rank(), Reduction::max), large + comm.size() - 1);
    EXPECT_EQ(comm.all_reduce(large), large * comm.size());
  });
}

TEST(Collectives, BroadcastFromEveryRoot) {
  for_each_size([](Communicator& comm, std::int64_t count) {
    for (int root = 0; root < comm.size(); ++root) {
      auto values = signed_inputs<double>(comm.rank(), count);
      comm.broadcast(std::span(values), root);
      EXPECT_EQ(values, signed_inputs<double>(root, count));
      const auto text_of = [](int rank) {
        return std::string(static_cast<std::size_t>(7 * rank), static_cast<char>('a' + rank));
      };
      EXPECT_EQ(comm.broadcast_string(text_of(comm.rank()), root), text_of(root));
    }
  });
}

TEST(Collectives, AllGatherInRankOrder) {
  for_each_size([](Communicator& comm, std::int64_t count) {
    const auto part = signed_inputs<std::int64_t>(comm.rank(), count);
    std::vector<std::int64_t> all(static_cast<std::size_t>(count * comm.size()), -1);
    comm.all_gather(std::span(part), std::span(all));
    EXPECT_EQ(all, gathered_inputs<std::int64_t>(comm.size(), count));
  });
}

TEST(Collectives, WrongSizesAndUnknownRequestsThrow) {
  for_each_communicator([](Communicator& comm) {
    const std::vector<float> part(3);
    std::vector<float> all(static_cast<std::size_t>(comm.size() * 3 + 1));
    EXPECT_THROW(comm.all_gather(std::span(part), std::span(all)), std::logic_error);
    EXPECT_THROW(comm.all_gather_async(part, all, {}), std::logic_error);
    EXPECT_THROW(comm.reduce_scatter_async(part, all, {}), std::logic_error);
    EXPECT_THROW(comm.wait(Request{}), std::logic_error);
    EXPECT_THROW(comm.wait(Request{std::int64_t{1} << 40}), std::logic_error);
    comm.barrier();
  });
}

TEST(Collectives, RanksAndCoresOnThisHostAreCounted) {
  for_each_communicator([](Communicator& comm) {
    EXPECT_EQ(comm.local_size(), comm.size());
    EXPECT_EQ(comm.local_rank(), comm.rank());
    EXPECT_FALSE(comm.host().empty());
    EXPECT_FALSE(comm.description().empty());
    EXPECT_GE(usable_cores(comm), 1);
    EXPECT_LE(usable_cores(comm), host_cores());
  });
}

TEST(Collectives, ErrorOfAnyRankIsAnErrorOnAllRanks) {
  for_each_communicator([](Communicator& comm) {
    EXPECT_NO_THROW(require_equal_on_all_ranks(comm, "same", "the text"));
    for (int other = 0; comm.size() > 1 && other < comm.size(); ++other) {
      const std::string text = comm.rank() == other ? "longer" : "text";
      EXPECT_THROW(require_equal_on_all_ranks(comm, text, "the text"), InputError) << other;
    }
    EXPECT_THROW(run_on_root(comm, [] { throw InputError("bad"); }), InputError);
    EXPECT_THROW(run_on_root(comm, [] { throw std::runtime_error("bad"); }), RunError);
    EXPECT_TRUE(query_root(comm, [&] { return comm.rank() == 0; }));
  });
}

template <class T>
class AsyncCollectives : public testing::Test {};
using Elements = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(AsyncCollectives, Elements);

TYPED_TEST(AsyncCollectives, EqualSerialOnes) {
  using T = TypeParam;
  for_each_size([](Communicator& comm, std::int64_t count) {
    const std::int64_t whole = count * comm.size();
    auto values = signed_inputs<T>(comm.rank(), count);
    EXPECT_EQ(comm.wait(comm.all_reduce_async(std::span(values), {})).event, nullptr);
    EXPECT_TRUE(same_bits(values, sums<T>(comm.size(), count)));

    auto all = signed_inputs<T>(comm.rank(), whole);
    std::vector<T> part(static_cast<std::size_t>(count), number<T>(-1));
    comm.wait(comm.reduce_scatter_async(std::span<const T>(all), std::span<T>(part), {}));
    EXPECT_TRUE(same_bits(part, sums<T>(comm.size(), count, comm.rank() * count)));
    EXPECT_TRUE(same_bits(all, signed_inputs<T>(comm.rank(), whole))) << "the input was changed";
    // Repeats it with this rank's range of the input as output.
    const auto mine = part_of(all, comm.rank(), count);
    comm.wait(comm.reduce_scatter_async(std::span<const T>(all), mine, {}));
    EXPECT_TRUE(std::ranges::equal(mine, part)) << "in place";

    const auto want = gathered_inputs<T>(comm.size(), count);
    part = signed_inputs<T>(comm.rank(), count);
    for (const bool in_place : {false, true}) {
      std::ranges::fill(all, number<T>(-1));
      if (in_place) std::ranges::copy(part, mine.begin());
      comm.wait(comm.all_gather_async(std::span<const T>(in_place ? mine : std::span(part)),
                                      std::span<T>(all), {}));
      EXPECT_TRUE(same_bits(all, want)) << "in place " << in_place;
    }
  });
}

TYPED_TEST(AsyncCollectives, SumsAreBitwiseEqualOnAllRanksAsAreBlockingOnes) {
  using T = TypeParam;
  for_each_communicator([](Communicator& comm) {
    const auto expect_same_on_all_ranks = [&](const std::vector<T>& values) {
      std::vector<T> all(values.size() * static_cast<std::size_t>(comm.size()));
      comm.wait(comm.all_gather_async(std::span<const T>(values), std::span<T>(all), {}));
      for (std::size_t i = 0; i < all.size(); i += values.size()) {
        EXPECT_EQ(std::memcmp(&all[i], values.data(), values.size() * sizeof(T)), 0)
            << values.size() << " elements";
      }
    };
    for (const std::size_t count : {5U, 61U, 1001U, 40000U}) {
      std::mt19937 random(static_cast<unsigned>(comm.rank() + 1));
      std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
      std::vector<T> values(count);
      for (T& v : values) v = number<T>(uniform(random) * std::exp2(20.0F * uniform(random)));
      std::vector<T> blocking = values;
      comm.wait(comm.all_reduce_async(std::span(values), {}));
      expect_same_on_all_ranks(values);
      if constexpr (std::is_same_v<T, float>) {
        comm.all_reduce(std::span(blocking));
        expect_same_on_all_ranks(blocking);
      }
    }
  });
}

// 256 + 1 + 1 is 258 in bf16, but 256 if every addition is rounded.
TEST(StartedBf16, SumsAreRoundedOnce) {
  for_each_communicator([](Communicator& comm) {
    const Bf16 mine = Bf16::from(comm.rank() == 0 ? 256.0F : 1.0F);
    const Bf16 want = Bf16::from(255.0F + static_cast<float>(comm.size()));
    std::vector<Bf16> values(static_cast<std::size_t>(4 * comm.size() + 1), mine);
    comm.wait(comm.all_reduce_async(std::span(values), {}));
    EXPECT_TRUE(std::ranges::all_of(values, [&](Bf16 v) { return v == want; })) << comm.size() << " ranks";
    const std::vector<Bf16> parts(static_cast<std::size_t>(3 * comm.size()), mine);
    std::vector<Bf16> part(3);
    comm.wait(comm.reduce_scatter_async(std::span<const Bf16>(parts), std::span(part), {}));
    EXPECT_TRUE(std::ranges::all_of(part, [&](Bf16 v) { return v == want; })) << comm.size() << " ranks";
  });
}

TEST(StartedBf16, SumsOfInfinityAndNanAreNotFinite) {
  for_each_communicator([](Communicator& comm) {
    std::vector<Bf16> values(40, Bf16::from(1.0F));
    if (comm.rank() == comm.size() - 1) values[7] = Bf16::from(std::numeric_limits<float>::infinity());
    if (comm.rank() == 0) values[39] = Bf16::from(std::numeric_limits<float>::quiet_NaN());
    comm.wait(comm.all_reduce_async(std::span(values), {}));
    EXPECT_TRUE(std::isinf(values[7].value()));
    EXPECT_TRUE(std::isnan(values[39].value()));
    EXPECT_EQ(values[8].value(), static_cast<float>(comm.size()));
  });
}

TEST(StartedMixture, MayBeWaitedForInAnyOrder) {
  for_each_communicator([](Communicator& comm) {
    const std::int64_t count = 193;
    const auto values = signed_inputs<float>(comm.rank(), count * comm.size());
    std::vector<float> part(static_cast<std::size_t>(count));
    std::vector<Bf16> bf16 = signed_inputs<Bf16>(comm.rank(), 500);
    const auto bytes = signed_inputs<Bf16>(comm.rank(), 77);
    std::vector<Bf16> all(static_cast<std::size_t>(77 * comm.size()));
    std::vector<Request> requests;
    requests.push_back(comm.reduce_scatter_async(std::span(values), std::span(part), {}));
    requests.push_back(comm.all_reduce_async(std::span(bf16), {}));
    requests.push_back(comm.all_gather_async(std::span(bytes), std::span(all), {}));
    // A blocking collective between start and wait must not be matched with a non-blocking one.
    EXPECT_EQ(comm.all_reduce(std::int64_t{1}), comm.size());
    if (comm.rank() % 2 == 1) std::ranges::reverse(requests);
    for (const Request request : requests) comm.wait(request);
    EXPECT_EQ(part, sums<float>(comm.size(), count, comm.rank() * count));
    EXPECT_TRUE(same_bits(bf16, sums<Bf16>(comm.size(), 500)));
    EXPECT_TRUE(same_bits(all, gathered_inputs<Bf16>(comm.size(), 77)));
    EXPECT_FALSE(comm.supports_graph_capture());
  });
}

}  // namespace
}  // namespace vaecf::comm
