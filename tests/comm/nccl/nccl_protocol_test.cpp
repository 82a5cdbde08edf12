// Tests the order of the NCCL communicator's NCCL and CUDA calls, and its handling of their errors. Both
// libraries are replaced by nccl_fakes.cpp, so no GPU is needed.
#include <vaecf/base/error.hpp>
#include <vaecf/comm/nccl.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/nccl/nccl_fakes.hpp"
#include "support/messages.hpp"

namespace vaecf::comm {
namespace {

using Calls = std::vector<std::string>;

class NcclProtocol : public testing::Test {
 protected:
  void SetUp() override { fakes::reset(); }
  void TearDown() override { library().abort_hangs = false; }
  static fakes::Library& library() { return fakes::library(); }
  std::unique_ptr<Communicator> make(double timeout = 30.0) {
    return make_nccl_communicator(*control_, "", {.timeout = timeout});
  }

  std::unique_ptr<Communicator> control_ = make_self_communicator();
  std::vector<float> floats_ = std::vector<float>(8);
  std::vector<Bf16> narrows_ = std::vector<Bf16>(8);
};

TEST_F(NcclProtocol, ConnectsAndDisconnectsWithNonBlockingCalls) {
  library().busy_polls = 3;
  {
    const auto comm = make();
    EXPECT_TRUE(library().has("init rank 0 of 1 blocking=0"));
    const Calls calls = library().calls();
    EXPECT_EQ(std::count(calls.begin(), calls.end(), "poll"), 4);
    EXPECT_TRUE(std::any_of(calls.begin(), calls.end(),
                            [](const std::string& call) { return call.ends_with("priority -5"); }));
    EXPECT_TRUE(comm->supports_graph_capture());
    expect_in(comm->description(), {"NCCL 2.", "algorithm chosen by NCCL", control_->description()});
    library().clear();
    library().busy_polls = 2;
  }
  EXPECT_EQ(library().calls(), (Calls{"finalize", "poll", "poll", "poll", "destroy"}));
}

TEST_F(NcclProtocol, CollectiveOfAnyKindRunsBetweenItsTwoEvents) {
  const auto comm = make();
  const device::EventHandle after{fakes::event(77)};
  const std::span<const float> floats(floats_);
  const std::span<const Bf16> narrows(narrows_);
  const std::pair<std::string, std::function<Request()>> collectives[] = {
      {"AllReduce 8 fp32", [&] { return comm->all_reduce_async(floats_, after); }},
      {"AllReduce 8 bf16", [&] { return comm->all_reduce_async(narrows_, after); }},
      {"ReduceScatter 8 fp32", [&] { return comm->reduce_scatter_async(floats, floats_, after); }},
      {"ReduceScatter 8 bf16", [&] { return comm->reduce_scatter_async(narrows, narrows_, after); }},
      {"AllGather 8 fp32", [&] { return comm->all_gather_async(floats, floats_, after); }},
      {"AllGather 8 bf16", [&] { return comm->all_gather_async(narrows, narrows_, after); }},
      {"", [&] { return comm->all_reduce_async(std::span<float>(), after); }}};
  for (const auto& [name, start] : collectives) {
    library().clear();
    const device::EventHandle done = comm->wait(start());
    const Calls calls = library().calls();
    ASSERT_GE(calls.size(), 2U);
    const std::string stream = calls[0].substr(calls[0].find(" on "));
    Calls expected{"wait 77" + stream};
    if (!name.empty()) expected.push_back(name + stream);
    expected.push_back("record " + fakes::name(done.event) + stream);
    EXPECT_EQ(calls, expected);
  }
}

TEST_F(NcclProtocol, PartIsSplitFromTheConnectionAndUsesItsStream) {
  const auto comm = make();
  library().clear();
  library().busy_polls = 2;
  const auto part = comm->split(3, 7);
  // The connection is polled until it has split, then the part, which was null before.
  EXPECT_EQ(library().calls(), (Calls{"split color 3 key 7", "poll", "poll", "poll", "poll part"}));
  library().clear();
  comm->wait(comm->all_reduce_async(floats_, {}));
  part->wait(part->all_reduce_async(floats_, {}));
  const Calls calls = library().calls();
  ASSERT_EQ(calls.size(), 4U);
  EXPECT_EQ(calls[0], calls[2]);
}

TEST_F(NcclProtocol, FailedSplitAbortsTheConnection) {
  {
    const auto comm = make();
    library().split_answer = ncclSystemError;
    expect_in(message_of<RunError>([&] { comm->split(0, 0); }), {"connecting 1 ranks", "some error"});
    EXPECT_TRUE(library().has("abort"));
  }
  EXPECT_FALSE(library().has("finalize"));
}

TEST_F(NcclProtocol, EventIsRecordedAfterNcclHasEnqueuedItsWork) {
  const auto comm = make();
  library().clear();
  library().answer = ncclInProgress;
  library().busy_polls = 2;
  const auto done = comm->wait(comm->all_reduce_async(floats_, {}));
  Calls calls = library().calls();
  ASSERT_EQ(calls.size(), 5U);
  EXPECT_EQ((Calls{calls[1], calls[2], calls[3]}), (Calls{"poll", "poll", "poll"}));
  EXPECT_EQ(calls[4].find("record " + fakes::name(done.event)), 0U);
}

TEST_F(NcclProtocol, SecondWaitForACollectiveThrows) {
  const auto comm = make();
  EXPECT_THROW(comm->wait({0}), std::logic_error);
  const Request request = comm->all_reduce_async(floats_, {});
  comm->wait(request);
  EXPECT_THROW(comm->wait(request), std::logic_error);
}

TEST_F(NcclProtocol, EventsAreReusedAfter64OthersOnly) {
  const auto comm = make();
  int used_again = 0;
  std::vector<const void*> all;
  for (int i = 0; i < 500; ++i) {
    const void* event = comm->wait(comm->all_reduce_async(floats_, {})).event;
    const auto recent = all.end() - std::min<std::ptrdiff_t>(64, std::ssize(all));
    EXPECT_EQ(std::count(recent, all.end(), event), 0);
    used_again += std::count(all.begin(), all.end(), event) > 0 ? 1 : 0;
    all.push_back(event);
  }
  EXPECT_GT(used_again, 400);
}

TEST_F(NcclProtocol, FailedCallAbortsTheConnection) {
  {
    const auto comm = make();
    library().answer = ncclSystemError;
    expect_in(message_of<RunError>([&] { comm->all_reduce_async(floats_, {}); }),
              {"all-reduce of 8 fp32 elements", "some error (the details)", "--shm-size", "NCCL_DEBUG=INFO"});
    EXPECT_TRUE(library().has("abort"));
    library().answer = ncclSuccess;
    expect_in(message_of<RunError>([&] { comm->all_reduce_async(floats_, {}); }), {"was aborted"});
  }
  EXPECT_FALSE(library().has("finalize"));
}

TEST_F(NcclProtocol, HangingAbortDoesNotBlockTheCaller) {
  const auto comm = make();
  library().abort_hangs = true;
  library().answer = ncclInternalError;
  const auto begin = std::chrono::steady_clock::now();
  expect_in(message_of<RunError>([&] { comm->all_reduce_async(floats_, {}); }), {"some error"});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST_F(NcclProtocol, DestructorAbortsWhileAnExceptionUnwinds) {
  try {
    const auto comm = make();
    throw std::runtime_error("this rank fails");
  } catch (const std::runtime_error&) {
  }
  EXPECT_TRUE(library().has("abort"));
  EXPECT_FALSE(library().has("finalize"));
}

TEST_F(NcclProtocol, DeviceCheckReportsErrorOfAnotherRank) {
  {
    const auto comm = make();
    comm->all_reduce_async(floats_, {});
    EXPECT_NO_THROW(control_->activity().check_device());
    library().state = ncclRemoteError;
    expect_in(message_of<RunError>([&] { control_->activity().check_device(); }),
              {"remote error", "another rank"});
    library().state = ncclSuccess;
  }
  library().state = ncclRemoteError;
  EXPECT_NO_THROW(control_->activity().check_device()) << "the check outlived its communicator";
}

TEST_F(NcclProtocol, DeviceCheckDoesNotWaitForAHangingCall) {
  const auto comm = make();
  library().answer = ncclInProgress;
  library().busy_polls = 1 << 30;
  std::thread worker([&] { comm->all_reduce_async(floats_, {}); });
  while (library().busy_polls == 1 << 30) std::this_thread::yield();
  control_->activity().check_device();
  library().busy_polls = 0;
  worker.join();
}

TEST_F(NcclProtocol, ConnectingTimesOutWithAnError) {
  library().busy_polls = 1 << 30;
  expect_in(message_of<RunError>([&] { make(0.2); }), {"connecting 1 ranks", "watchdog.timeout_seconds"});
  EXPECT_TRUE(library().has("abort"));
}

TEST_F(NcclProtocol, DestructorReturnsIfPeersNeverDisconnect) {
  {
    const auto comm = make(0.2);
    library().busy_polls = 1 << 30;
  }
  EXPECT_TRUE(library().has("finalize"));
  EXPECT_TRUE(library().has("abort"));
  EXPECT_FALSE(library().has("destroy"));
}

}  // namespace
}  // namespace vaecf::comm
