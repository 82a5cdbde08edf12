// Tests the blocking collectives of every kind of communicator. Inputs are small integers, so that any order
// of addition gives the serial sum exactly.
#include <vaecf/base/host.hpp>
#include <vaecf/comm/communicator.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/communicators.hpp"

namespace vaecf::comm {
namespace {

template <class T>
T input(int rank, std::int64_t i) {
  return static_cast<T>((rank * 7 + i * 3 + 1) % 19);
}

template <class T>
std::vector<T> inputs(int rank, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = input<T>(rank, i);
  return values;
}

/// Returns the serial reduction.
template <class T>
std::vector<T> expected(int ranks, std::int64_t count, Reduction reduction) {
  std::vector<T> total = inputs<T>(0, count);
  for (int r = 1; r < ranks; ++r) {
    for (std::int64_t i = 0; i < count; ++i) {
      T& t = total[static_cast<std::size_t>(i)];
      const T v = input<T>(r, i);
      if (reduction == Reduction::sum) t = static_cast<T>(t + v);
      if (reduction == Reduction::max) t = std::max(t, v);
      if (reduction == Reduction::min) t = std::min(t, v);
    }
  }
  return total;
}

template <class T>
void check_all_reduce() {
  for_each_communicator([](Communicator& comm) {
    for (const Reduction reduction : {Reduction::sum, Reduction::max, Reduction::min}) {
      for (const std::int64_t count : message_sizes(comm.size())) {
        auto values = inputs<T>(comm.rank(), count);
        comm.all_reduce(std::span(values), reduction);
        EXPECT_EQ(values, expected<T>(comm.size(), count, reduction))
            << count << " elements on " << comm.size() << " ranks";
      }
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
  for_each_communicator([](Communicator& comm) {
    for (int root = 0; root < comm.size(); ++root) {
      for (const std::int64_t count : message_sizes(comm.size())) {
        auto values = inputs<double>(comm.rank(), count);
        comm.broadcast(std::span(values), root);
        EXPECT_EQ(values, inputs<double>(root, count));
      }
    }
  });
}

TEST(Collectives, BroadcastOfStringsOfAnyLength) {
  for_each_communicator([](Communicator& comm) {
    for (int root = 0; root < comm.size(); ++root) {
      const std::string mine(static_cast<std::size_t>(7 * comm.rank()), static_cast<char>('a' + comm.rank()));
      EXPECT_EQ(comm.broadcast_string(mine, root),
                std::string(static_cast<std::size_t>(7 * root), static_cast<char>('a' + root)));
    }
  });
}

TEST(Collectives, AllGatherInRankOrder) {
  for_each_communicator([](Communicator& comm) {
    for (const std::int64_t count : message_sizes(comm.size())) {
      const auto part = inputs<std::int64_t>(comm.rank(), count);
      std::vector<std::int64_t> all(static_cast<std::size_t>(count * comm.size()), -1);
      comm.all_gather(std::span(part), std::span(all));
      std::vector<std::int64_t> want;
      for (int r = 0; r < comm.size(); ++r) {
        const auto theirs = inputs<std::int64_t>(r, count);
        want.insert(want.end(), theirs.begin(), theirs.end());
      }
      EXPECT_EQ(all, want) << count << " elements on " << comm.size() << " ranks";
    }
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

TEST(Collectives, RanksOnThisHostAreCounted) {
  for_each_communicator([](Communicator& comm) {
    EXPECT_EQ(comm.local_size(), comm.size());
    EXPECT_EQ(comm.local_rank(), comm.rank());
    EXPECT_FALSE(comm.host().empty());
    EXPECT_FALSE(comm.description().empty());
  });
}

TEST(Collectives, TextThatDiffersOnAnyRankIsAnErrorOnAllRanks) {
  for_each_communicator([](Communicator& comm) {
    EXPECT_NO_THROW(require_equal_on_all_ranks(comm, "same", "the text"));
    for (int other = 0; comm.size() > 1 && other < comm.size(); ++other) {
      const std::string text = comm.rank() == other ? "longer" : "text";
      EXPECT_THROW(require_equal_on_all_ranks(comm, text, "the text"), InputError) << other;
    }
  });
}

TEST(Collectives, ErrorOfRootIsAnErrorOnAllRanks) {
  for_each_communicator([](Communicator& comm) {
    EXPECT_THROW(run_on_root(comm, [] { throw InputError("bad"); }), InputError);
    EXPECT_THROW(run_on_root(comm, [] { throw std::runtime_error("bad"); }), RunError);
    EXPECT_TRUE(query_root(comm, [&] { return comm.rank() == 0; }));
  });
}

TEST(Collectives, UsableCoresIncludeThoseOfThisRank) {
  for_each_communicator([](Communicator& comm) {
    EXPECT_GE(usable_cores(comm), 1);
    EXPECT_LE(usable_cores(comm), host_cores());
  });
}

}  // namespace
}  // namespace vaecf::comm
