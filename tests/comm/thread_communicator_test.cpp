// Provides thread ranks to the tests of all communicators, and tests what happens when one of them fails.
#include "support/thread_communicator.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/comm/distributed_options.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "comm/communicators.hpp"
#include "support/messages.hpp"

namespace vaecf::comm {

void for_each_communicator(const std::function<void(Communicator&)>& body) {
  {
    SCOPED_TRACE("self communicator");
    body(*make_self_communicator());
  }
  for (const int ranks : {1, 2, 3, 4}) run_ranks(ranks, body);
}

namespace {

TEST(BucketBytes, DependOnWhereTheRanksRun) {
  const auto mib_of = [](const DistributedOptions& options, const ThreadDevice& place) {
    std::atomic<double> mib = 0.0;
    run_ranks(
        5,
        [&](Communicator& comm) {
          const double mine = bucket_bytes(options, comm) / 1048576.0;
          if (comm.rank() == 0) mib = mine;
          comm.barrier();
          EXPECT_EQ(mine, mib);
        },
        place);
    return mib.load();
  };
  EXPECT_EQ(mib_of({}, {}), 4.0);
  EXPECT_EQ(mib_of({}, {.ranks_per_host = 2}), 4.0);
  EXPECT_EQ(mib_of({}, {.supports_graph_capture = true}), 32.0);
  EXPECT_EQ(mib_of({}, {.supports_graph_capture = true, .ranks_per_host = 4}), 64.0);
  EXPECT_EQ(mib_of({.bucket_mib = 0.5}, {.supports_graph_capture = true, .ranks_per_host = 4}), 0.5);
}

TEST(ThreadCommunicator, ExceptionOfOneRankUnblocksTheOthersAndIsRethrown) {
  for (const bool started : {false, true}) {
    std::atomic<int> freed = 0;
    const auto fails = [&] {
      run_ranks(4, [&](Communicator& comm) {
        std::vector<float> values(8, 1.0F);
        comm.barrier();
        if (comm.rank() == 2) throw InputError("rank 2 cannot read its shard");
        try {
          if (started)
            comm.wait(comm.all_reduce_async(values, {}));
          else
            comm.barrier();
        } catch (const RanksAborted&) {
          ++freed;
          throw;
        }
      });
    };
    EXPECT_EQ(message_of<InputError>(fails), "rank 2 cannot read its shard");
    EXPECT_EQ(freed, 3);
  }
}

TEST(ThreadCommunicator, AbortEndsAllRanksWithTheGivenCode) {
  try {
    run_ranks(3, [](Communicator& comm) {
      if (comm.rank() == 1) comm.abort(7);
      comm.barrier();
    });
    FAIL() << "nothing was thrown";
  } catch (const RanksAborted& aborted) {
    EXPECT_EQ(aborted.code(), 7);
  }
}

TEST(ThreadCommunicator, MismatchedCallsThrow) {
  const std::vector<std::function<void(Communicator&)>> bodies = {
      [](Communicator& comm) {
        std::vector<float> values(comm.rank() == 1 ? 5 : 4);
        comm.all_reduce(std::span(values));
      },
      [](Communicator& comm) {
        if (comm.rank() == 0)
          comm.all_reduce(1.0F);
        else
          comm.barrier();
      },
      [](Communicator& comm) {
        std::vector<float> values(comm.rank() == 0 ? 4 : 5);
        comm.wait(comm.all_reduce_async(values, {}));
      }};
  for (const auto& body : bodies) EXPECT_THROW(run_ranks(2, body), std::logic_error);
}

}  // namespace
}  // namespace vaecf::comm
