#include "comm/nccl_settings.hpp"

#include <gtest/gtest.h>
#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <atomic>
#include <cstdlib>
#include <map>
#include <string>

#include "comm/nccl_agreement.hpp"
#include "support/thread_communicator.hpp"

namespace vaecf::comm {
namespace {

using Variables = std::map<std::string, std::string>;

Variables chosen(const NcclSettings& settings) {
  const auto list = nccl_environment(settings);
  return {list.begin(), list.end()};
}

/// NCCL's variables are unset before and after each test.
class NcclEnvironment : public testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name : {"NCCL_ALGO", "NCCL_PROTO", "NCCL_NVLS_ENABLE", "NCCL_MULTI_RANK_GPU_ENABLE",
                             "NCCL_MAX_CTAS", "NCCL_HOSTID", "NCCL_IB_DISABLE"}) {
      unsetenv(name);
    }
  }
};
using NcclAgreement = NcclEnvironment;

TEST_F(NcclEnvironment, RingIsAskedForAndAutoAsksForNothing) {
  EXPECT_EQ(chosen({.algorithm = AllReduceAlgorithm::ring, .version = 22809}),
            (Variables{{"NCCL_ALGO", "Ring"}}));
  EXPECT_EQ(chosen({.algorithm = AllReduceAlgorithm::automatic, .version = 22809}), Variables{});
}

TEST_F(NcclEnvironment, DeterministicFixesAlgorithmAndProtocolWhateverElseIsAskedFor) {
  const Variables fixed{{"NCCL_ALGO", "Ring"}, {"NCCL_PROTO", "Simple"}, {"NCCL_NVLS_ENABLE", "0"}};
  EXPECT_EQ(chosen({.algorithm = AllReduceAlgorithm::automatic, .deterministic = true, .version = 22809}),
            fixed);
  EXPECT_EQ(chosen({.algorithm = AllReduceAlgorithm::ring, .deterministic = true, .version = 23007}), fixed);
}

TEST_F(NcclEnvironment, SharedGpusAreHostsOfTheirOwnBefore230) {
  EXPECT_EQ(
      chosen({.algorithm = AllReduceAlgorithm::automatic, .shared_gpu = true, .version = 22999, .rank = 3}),
      (Variables{{"NCCL_NVLS_ENABLE", "0"}, {"NCCL_HOSTID", "vaecf-rank-3"}, {"NCCL_IB_DISABLE", "1"}}));
  EXPECT_NE(chosen({.shared_gpu = true, .version = 22999, .rank = 1}).at("NCCL_HOSTID"),
            chosen({.shared_gpu = true, .version = 22999, .rank = 0}).at("NCCL_HOSTID"));
}

TEST_F(NcclEnvironment, SharedGpusAreAllowedFrom230On) {
  EXPECT_EQ(
      chosen({.algorithm = AllReduceAlgorithm::automatic, .shared_gpu = true, .version = 23000, .rank = 3}),
      (Variables{{"NCCL_NVLS_ENABLE", "0"}, {"NCCL_MULTI_RANK_GPU_ENABLE", "1"}, {"NCCL_MAX_CTAS", "4"}}));
}

TEST_F(NcclEnvironment, WhatTheUserSetStays) {
  setenv("NCCL_ALGO", "Tree", 1);
  set_nccl_environment({.algorithm = AllReduceAlgorithm::ring, .deterministic = true, .version = 22809});
  EXPECT_STREQ(std::getenv("NCCL_ALGO"), "Tree");
  EXPECT_STREQ(std::getenv("NCCL_PROTO"), "Simple");
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "0");
}

TEST_F(NcclEnvironment, TheLogSaysWhatCameOutOfIt) {
  NcclSettings settings{.algorithm = AllReduceAlgorithm::automatic, .version = 22809};
  set_nccl_environment(settings);
  EXPECT_EQ(nccl_choice(settings), "NCCL's choice of algorithm");
  settings.algorithm = AllReduceAlgorithm::ring;
  set_nccl_environment(settings);
  EXPECT_EQ(nccl_choice(settings), "ring");
  EXPECT_EQ(nccl_agreement(22809), "NCCL 2.28.9 NCCL_ALGO=Ring");
  settings.deterministic = true;
  set_nccl_environment(settings);
  EXPECT_NE(nccl_choice(settings).find("same bits"), std::string::npos);
  // Not where the user's own choice may not keep the promise.
  setenv("NCCL_ALGO", "Tree", 1);
  EXPECT_EQ(nccl_choice(settings).find("same bits"), std::string::npos) << nccl_choice(settings);
  EXPECT_EQ(nccl_choice(settings).find("NCCL_ALGO=Tree"), 0U);
  settings.shared_gpu = true;
  EXPECT_NE(nccl_choice(settings).find("timings mean nothing"), std::string::npos);
}

TEST_F(NcclEnvironment, VersionsReadAsNvidiaWritesThem) {
  EXPECT_EQ(nccl_version_text(22809), "2.28.9");
  EXPECT_EQ(nccl_version_text(23007), "2.30.7");
  EXPECT_EQ(nccl_version_text(21805), "2.18.5");
}

TEST(NcclFailures, SayWhatFailedAndWhatHelps) {
  const std::string small = to_message({"connecting 2 ranks", "unhandled system error",
                                        "Error while creating shm", false, std::int64_t{64} << 20});
  for (const char* part : {"connecting 2 ranks", "unhandled system error", "Error while creating shm",
                           "64 MiB", "--shm-size", "NCCL_DEBUG=INFO"}) {
    EXPECT_NE(small.find(part), std::string::npos) << part << " in: " << small;
  }
  const std::string large =
      to_message({"an all-reduce", "unhandled cuda error", "", false, std::int64_t{8} << 30});
  EXPECT_EQ(large.find("/dev/shm"), std::string::npos) << large;
  EXPECT_EQ(large.find("()"), std::string::npos) << large;
  const std::string unknown = to_message({"an all-reduce", "internal error", "", false, -1});
  EXPECT_EQ(unknown.find("/dev/shm"), std::string::npos) << unknown;
  const std::string remote = to_message({"an all-reduce", "remote error", "", true, 0});
  EXPECT_NE(remote.find("another rank"), std::string::npos) << remote;
  EXPECT_EQ(remote.find("/dev/shm"), std::string::npos) << remote;
}

TEST_F(NcclAgreement, RanksOfOneMindGoOn) {
  run_ranks(3, [](Communicator& control) {
    const auto settings = agree_on_nccl(control, {.algorithm = AllReduceAlgorithm::automatic},
                                        vaecf::format("GPU-{}", control.rank()), 22809);
    EXPECT_EQ(settings.rank, control.rank());
    EXPECT_FALSE(settings.shared_gpu);
    EXPECT_EQ(settings.version, 22809);
  });
}

TEST_F(NcclAgreement, AnotherVersionIsToldOnAllRanks) {
  std::atomic<int> told = 0;
  run_ranks(3, [&](Communicator& control) {
    try {
      agree_on_nccl(control, {.algorithm = AllReduceAlgorithm::automatic},
                    vaecf::format("GPU-{}", control.rank()), control.rank() == 1 ? 23007 : 22809);
    } catch (const InputError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("rank 1 has NCCL 2.30.7"), std::string::npos) << text;
      EXPECT_NE(text.find("rank 0 has NCCL 2.28.9"), std::string::npos) << text;
      ++told;
    }
  });
  EXPECT_EQ(told, 3);
}

TEST_F(NcclAgreement, SharedGpusNeedLeave) {
  std::atomic<int> told = 0;
  std::atomic<int> shared = 0;
  const auto id = [](int rank) { return rank == 0 ? "GPU-a" : "GPU-b"; };
  run_ranks(3, [&](Communicator& control) {
    try {
      agree_on_nccl(control, {.algorithm = AllReduceAlgorithm::automatic}, id(control.rank()), 22809);
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("two ranks compute on GPU-b"), std::string::npos);
      EXPECT_NE(std::string(error.what()).find("allow_shared_gpu"), std::string::npos);
      ++told;
    }
    const NcclOptions allowed{.algorithm = AllReduceAlgorithm::automatic, .allow_shared_gpu = true};
    if (agree_on_nccl(control, allowed, id(control.rank()), 22809).shared_gpu) ++shared;
  });
  EXPECT_EQ(told, 3);
  EXPECT_EQ(shared, 3);
}

}  // namespace
}  // namespace vaecf::comm
