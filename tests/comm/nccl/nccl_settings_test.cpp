#include <vaecf/base/error.hpp>
#include <vaecf/comm/nccl.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <string>

#include "support/thread_communicator.hpp"

namespace vaecf::comm {
namespace {

using Variables = std::map<std::string, std::string>;

constexpr std::array<const char*, 7> variables = {
    "NCCL_ALGO",     "NCCL_PROTO",  "NCCL_NVLS_ENABLE", "NCCL_MULTI_RANK_GPU_ENABLE",
    "NCCL_MAX_CTAS", "NCCL_HOSTID", "NCCL_IB_DISABLE"};

void clear_environment() {
  for (const char* name : variables) unsetenv(name);
}

/// Returns the variables that `settings` add to an environment without any NCCL variables.
Variables chosen(const NcclSettings& settings) {
  clear_environment();
  set_nccl_environment(settings);
  Variables found;
  for (const char* name : variables) {
    if (const char* value = std::getenv(name)) found[name] = value;
  }
  return found;
}

/// Unsets the NCCL variables before and after each test.
class NcclEnvironment : public testing::Test {
 protected:
  void SetUp() override { clear_environment(); }
  void TearDown() override { clear_environment(); }
};
using NcclAgreement = NcclEnvironment;

TEST_F(NcclEnvironment, ContainsTheVariablesThatSettingsRequire) {
  EXPECT_EQ(chosen({.version = 22809}), Variables{});
  EXPECT_EQ(chosen({.algorithm = AllReduceAlgorithm::ring, .version = 22809}),
            (Variables{{"NCCL_ALGO", "Ring"}}));
  const Variables fixed{{"NCCL_ALGO", "Ring"}, {"NCCL_PROTO", "Simple"}, {"NCCL_NVLS_ENABLE", "0"}};
  EXPECT_EQ(chosen({.algorithm = AllReduceAlgorithm::ring, .deterministic = true, .version = 22809}), fixed);
  EXPECT_EQ(chosen({.deterministic = true, .version = 23007}), fixed);
  EXPECT_EQ(
      chosen({.shared_gpu = true, .version = 22999, .rank = 3}),
      (Variables{{"NCCL_NVLS_ENABLE", "0"}, {"NCCL_HOSTID", "vaecf-rank-3"}, {"NCCL_IB_DISABLE", "1"}}));
  EXPECT_EQ(
      chosen({.shared_gpu = true, .version = 23000, .rank = 3}),
      (Variables{{"NCCL_NVLS_ENABLE", "0"}, {"NCCL_MULTI_RANK_GPU_ENABLE", "1"}, {"NCCL_MAX_CTAS", "4"}}));
}

TEST_F(NcclEnvironment, KeepsVariablesSetByTheUser) {
  setenv("NCCL_ALGO", "Tree", 1);
  set_nccl_environment({.deterministic = true, .version = 22809});
  EXPECT_STREQ(std::getenv("NCCL_ALGO"), "Tree");
  EXPECT_STREQ(std::getenv("NCCL_PROTO"), "Simple");
}

TEST_F(NcclEnvironment, DescriptionFollowsSettingsAndEnvironment) {
  NcclSettings settings{.version = 22809};
  set_nccl_environment(settings);
  EXPECT_EQ(describe_nccl_algorithm(settings), "algorithm chosen by NCCL");
  settings.algorithm = AllReduceAlgorithm::ring;
  set_nccl_environment(settings);
  EXPECT_EQ(describe_nccl_algorithm(settings), "ring");
  settings.deterministic = true;
  set_nccl_environment(settings);
  EXPECT_NE(describe_nccl_algorithm(settings).find("reproducible"), std::string::npos);
  // An algorithm chosen by the user may not be reproducible.
  setenv("NCCL_ALGO", "Tree", 1);
  EXPECT_EQ(describe_nccl_algorithm(settings).find("reproducible"), std::string::npos)
      << describe_nccl_algorithm(settings);
  EXPECT_EQ(describe_nccl_algorithm(settings).find("NCCL_ALGO=Tree"), 0U);
  settings.shared_gpu = true;
  EXPECT_NE(describe_nccl_algorithm(settings).find("timings are meaningless"), std::string::npos);
}

/// Expects that three ranks with these GPUs and NCCL versions agree if `refusal` is empty; otherwise all must
/// throw an InputError that contains it.
void expect_agreement(const std::array<const char*, 3>& gpus, const std::array<int, 3>& versions,
                      const NcclOptions& options, const std::string& refusal) {
  std::atomic<int> agreed = 0;
  run_ranks(3, [&](Communicator& control) {
    const auto rank = static_cast<std::size_t>(control.rank());
    std::string text;
    try {
      const NcclSettings settings = negotiate_nccl_settings(control, options, gpus[rank], versions[rank]);
      EXPECT_EQ(settings.rank, control.rank());
      EXPECT_EQ(settings.version, versions[rank]);
      EXPECT_EQ(settings.shared_gpu, options.allow_shared_gpu);
    } catch (const InputError& error) {
      text = error.what();
    }
    EXPECT_EQ(text.empty(), refusal.empty());
    EXPECT_NE(text.find(refusal), std::string::npos) << text;
    ++agreed;
  });
  EXPECT_EQ(agreed, 3);
}

TEST_F(NcclAgreement, AllRanksAgreeOrAllThrow) {
  const NcclOptions options;
  const std::array<int, 3> alike = {22809, 22809, 22809};
  expect_agreement({"GPU-a", "GPU-b", "GPU-c"}, alike, options, "");
  expect_agreement({"GPU-a", "GPU-b", "GPU-c"}, {22809, 23007, 22809}, options,
                   "rank 1 has NCCL 2.30.7, rank 0 has NCCL 2.28.9");
  expect_agreement({"GPU-a", "GPU-b", "GPU-b"}, alike, options, "two ranks compute on GPU-b");
  expect_agreement({"GPU-a", "GPU-b", "GPU-b"}, alike, {.allow_shared_gpu = true}, "");
}

}  // namespace
}  // namespace vaecf::comm
