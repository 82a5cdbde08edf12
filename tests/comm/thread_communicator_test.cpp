#include "support/thread_communicator.hpp"

#include <gtest/gtest.h>
#include <vaecf/base/error.hpp>

#include <atomic>
#include <string>
#include <vector>

namespace vaecf::comm {
namespace {

TEST(ThreadCommunicator, ARankThatThrowsFreesTheOthersAndItsErrorIsTheOneSeen) {
  std::atomic<int> freed = 0;
  try {
    run_ranks(4, [&](Communicator& comm) {
      comm.barrier();
      if (comm.rank() == 2) throw InputError("rank 2 cannot read its shard");
      try {
        comm.barrier();
      } catch (const RanksAborted&) {
        ++freed;
        throw;
      }
    });
    FAIL() << "nothing was thrown";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "rank 2 cannot read its shard");
  }
  EXPECT_EQ(freed, 3);
}

TEST(ThreadCommunicator, ARankThatThrowsFreesThoseThatWaitForAStartedSum) {
  EXPECT_THROW(run_ranks(3,
                         [](Communicator& comm) {
                           std::vector<float> values(8, 1.0F);
                           if (comm.rank() == 0) throw RunError("gone");
                           comm.wait(comm.start_all_reduce_sum(values, {}));
                         }),
               RunError);
}

TEST(ThreadCommunicator, AbortEndsAllRanksWithItsCode) {
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

TEST(ThreadCommunicator, ARankThatReturnsEarlyIsAnErrorNotAHang) {
  EXPECT_THROW(run_ranks(2,
                         [](Communicator& comm) {
                           if (comm.rank() == 0) comm.barrier();
                         }),
               std::logic_error);
  EXPECT_THROW(run_ranks(2,
                         [](Communicator& comm) {
                           std::vector<float> values(8, 1.0F);
                           if (comm.rank() == 0) comm.wait(comm.start_all_reduce_sum(values, {}));
                         }),
               std::logic_error);
}

TEST(ThreadCommunicator, CallsThatDoNotMatchAreAnError) {
  EXPECT_THROW(run_ranks(3,
                         [](Communicator& comm) {
                           std::vector<float> values(comm.rank() == 2 ? 5 : 4);
                           comm.all_reduce(std::span(values));
                         }),
               std::logic_error);
  EXPECT_THROW(run_ranks(2,
                         [](Communicator& comm) {
                           std::vector<float> values(4);
                           if (comm.rank() == 0)
                             comm.all_reduce(std::span(values));
                           else
                             comm.barrier();
                         }),
               std::logic_error);
  EXPECT_THROW(run_ranks(2,
                         [](Communicator& comm) {
                           std::vector<float> values(comm.rank() == 0 ? 4 : 5);
                           comm.wait(comm.start_all_reduce_sum(values, {}));
                         }),
               std::logic_error);
}

}  // namespace
}  // namespace vaecf::comm
