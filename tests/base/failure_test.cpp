#include <vaecf/base/failure.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <new>

namespace vaecf {
namespace {

TEST(FailureCodes, FollowFromTheTypeOfTheException) {
  EXPECT_EQ(failure_code(CausedError(FailureCode::diverged, "")), FailureCode::diverged);
  EXPECT_EQ(failure_code(BusyError("")), FailureCode::busy);
  EXPECT_EQ(failure_code(InputError("")), FailureCode::input);
  EXPECT_EQ(failure_code(std::filesystem::filesystem_error("", {})), FailureCode::input);
  EXPECT_EQ(failure_code(std::bad_alloc()), FailureCode::memory);
  EXPECT_EQ(failure_code(RunError("")), FailureCode::internal);
  EXPECT_EQ(failure_code(std::runtime_error("")), FailureCode::internal);
}

TEST(FailureCodes, AreThrownAgainWithTheirExitCode) {
  for (const auto& [code, name] : enum_names<FailureCode>) {
    const ExitCode expected = code == FailureCode::input  ? ExitCode::bad_input
                              : code == FailureCode::busy ? ExitCode::busy
                                                          : ExitCode::failed;
    try {
      throw_on_all_ranks(code, "message");
    } catch (const Error& error) {
      EXPECT_EQ(failure_code(error), code) << name;
      EXPECT_EQ(error.code(), expected) << name;
      EXPECT_TRUE(error.on_all_ranks()) << name;
      EXPECT_STREQ(error.what(), "message");
    }
  }
}

}  // namespace
}  // namespace vaecf
