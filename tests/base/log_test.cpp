#include <vaecf/base/log.hpp>

#include <gtest/gtest.h>

#include <string>

namespace vaecf {
namespace {

/// Returns what a log with these settings writes to standard error.
std::string logged(Verbosity verbosity, bool enabled, bool shares_line_with_progress_bar = false) {
  ::testing::internal::CaptureStderr();
  {
    Log log(verbosity, enabled, shares_line_with_progress_bar);
    log.debug("debug {}", 1);
    log.info("info {{}} {}", 2);
    log.warn("warn {}", "{}");
  }
  return ::testing::internal::GetCapturedStderr();
}

TEST(Log, VerbosityFiltersLevels) {
  EXPECT_EQ(logged(Verbosity::quiet, true), "warning: warn {}\n");
  EXPECT_EQ(logged(Verbosity::normal, true), "info {} 2\nwarning: warn {}\n");
  EXPECT_EQ(logged(Verbosity::verbose, true), "debug 1\ninfo {} 2\nwarning: warn {}\n");
}

TEST(Log, DisabledLogWritesNothing) {
  EXPECT_EQ(logged(Verbosity::verbose, false), "");
  Log disabled;
  disabled.warn("not logged: {}", "this");
}

TEST(Log, ErasesTheProgressBarBeforeALine) {
  EXPECT_EQ(logged(Verbosity::quiet, true, true), "\r\033[Kwarning: warn {}\n");
}

TEST(Log, EscapesControlCharactersExceptLineBreaks) {
  ::testing::internal::CaptureStderr();
  Log(Verbosity::normal, true).warn("{}", "a\x1b[2J\n  b");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "warning: a\\x1b[2J\n  b\n");
}

}  // namespace
}  // namespace vaecf
