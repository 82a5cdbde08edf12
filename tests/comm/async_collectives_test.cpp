// Tests the non-blocking collectives of every kind of communicator. Inputs are small integers, which are
// exact in bf16 too, so that results must equal the serial ones bitwise. Tests of rounding use other inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "comm/communicators.hpp"
#include "comm/inputs.hpp"

namespace vaecf::comm {
namespace {

template <class T>
std::vector<T> part_of(const std::vector<T>& all, int rank, std::int64_t count) {
  return {all.begin() + rank * count, all.begin() + (rank + 1) * count};
}

template <class T>
class AsyncCollectives : public testing::Test {};
using Elements = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(AsyncCollectives, Elements);

TYPED_TEST(AsyncCollectives, AllReduce) {
  using T = TypeParam;
  for_each_communicator([](Communicator& comm) {
    for (const std::int64_t count : message_sizes(comm.size())) {
      auto values = signed_inputs<T>(comm.rank(), count);
      EXPECT_EQ(comm.wait(comm.all_reduce_async(std::span(values), {})).event, nullptr);
      EXPECT_TRUE(values == sums<T>(comm.size(), count))
          << count << " elements on " << comm.size() << " ranks";
    }
  });
}

TYPED_TEST(AsyncCollectives, ReduceScatter) {
  using T = TypeParam;
  for_each_communicator([](Communicator& comm) {
    for (const std::int64_t count : message_sizes(comm.size())) {
      const auto values = signed_inputs<T>(comm.rank(), count * comm.size());
      auto kept = values;
      std::vector<T> part(static_cast<std::size_t>(count), number<T>(-1));
      comm.wait(comm.reduce_scatter_async(std::span<const T>(kept), std::span<T>(part), {}));
      EXPECT_TRUE(part == part_of(sums<T>(comm.size(), count * comm.size()), comm.rank(), count))
          << count << " elements on " << comm.size() << " ranks";
      EXPECT_TRUE(kept == values) << "the input was changed";
      // Repeats it with this rank's range of the input as output.
      const auto mine = std::span(kept).subspan(static_cast<std::size_t>(comm.rank() * count),
                                                static_cast<std::size_t>(count));
      comm.wait(comm.reduce_scatter_async(std::span<const T>(kept), mine, {}));
      EXPECT_TRUE(std::ranges::equal(mine, part)) << count << " elements in place";
    }
  });
}

TYPED_TEST(AsyncCollectives, AllGather) {
  using T = TypeParam;
  for_each_communicator([](Communicator& comm) {
    for (const std::int64_t count : message_sizes(comm.size())) {
      std::vector<T> want;
      for (int r = 0; r < comm.size(); ++r) {
        const auto theirs = signed_inputs<T>(r, count);
        want.insert(want.end(), theirs.begin(), theirs.end());
      }
      const auto part = signed_inputs<T>(comm.rank(), count);
      std::vector<T> all(want.size(), number<T>(-1));
      comm.wait(comm.all_gather_async(std::span<const T>(part), std::span<T>(all), {}));
      EXPECT_TRUE(all == want) << count << " elements on " << comm.size() << " ranks";
      std::vector<T> placed(want.size(), number<T>(-1));
      const auto mine = std::span(placed).subspan(static_cast<std::size_t>(comm.rank() * count), part.size());
      std::ranges::copy(part, mine.begin());
      comm.wait(comm.all_gather_async(std::span<const T>(mine), std::span<T>(placed), {}));
      EXPECT_TRUE(placed == want) << count << " elements in place";
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
    const std::int64_t count = 4 * comm.size() + 1;
    const Bf16 mine = Bf16::from(comm.rank() == 0 ? 256.0F : 1.0F);
    const Bf16 want = Bf16::from(255.0F + static_cast<float>(comm.size()));
    std::vector<Bf16> values(static_cast<std::size_t>(count), mine);
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
    std::vector<float> values(40, 1.0F);
    if (comm.rank() == comm.size() - 1) values[7] = std::numeric_limits<float>::infinity();
    if (comm.rank() == 0) values[39] = std::numeric_limits<float>::quiet_NaN();
    std::vector<Bf16> bf16;
    for (const float v : values) bf16.push_back(Bf16::from(v));
    comm.wait(comm.all_reduce_async(std::span(bf16), {}));
    EXPECT_TRUE(std::isinf(bf16[7].value()));
    EXPECT_TRUE(std::isnan(bf16[39].value()));
    EXPECT_EQ(bf16[8].value(), static_cast<float>(comm.size()));
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
    EXPECT_EQ(part, part_of(sums<float>(comm.size(), count * comm.size()), comm.rank(), count));
    EXPECT_TRUE(bf16 == sums<Bf16>(comm.size(), 500));
    EXPECT_TRUE(part_of(all, comm.size() - 1, 77) == signed_inputs<Bf16>(comm.size() - 1, 77));
    EXPECT_FALSE(comm.supports_graph_capture());
  });
}

}  // namespace
}  // namespace vaecf::comm
