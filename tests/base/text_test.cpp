#include <vaecf/base/log.hpp>
#include <vaecf/base/text.hpp>

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

using namespace std::string_literals;

TEST(Escape, ControlCharactersAndInvalidBytesAreShownAsHexadecimal) {
  EXPECT_EQ(escape("\x1b[31mred\x07\x7f\r"), "\\x1b[31mred\\x07\\x7f\\x0d");
  EXPECT_EQ(escape("a\0b"s), "a\\x00b");
  EXPECT_EQ(escape("\xc2\x9b"), "\\xc2\\x9b") << "U+009B begins an escape sequence";
  EXPECT_EQ(escape("caf\xe9 \xc3\xa9"), "caf\\xe9 \xc3\xa9") << "Latin-1 next to UTF-8";
  EXPECT_EQ(escape("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
}

TEST(Utf8, AcceptsWellFormedTextOnly) {
  for (const char* text : {"", "plain", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x8E\xAC", "\xEF\xBF\xBD"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
  for (const char* text : {"caf\xE9", "\xC3", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                           "\xF5\x80\x80\x80", "\x80", "\xE2\x82", "\xFF"}) {
    EXPECT_FALSE(is_utf8(text)) << text;
  }
}

TEST(Escape, PrintableTextIsUnchanged) {
  const std::string text = "back\\slash, \xc2\xa0 \xc3\xa9 \xe4\xb8\xad \xf0\x9f\x98\x80\n\tnext";
  EXPECT_EQ(escape(text), text);
  EXPECT_EQ(escape(escape("\x1b", "")), "\\x1b");
}

TEST(Excerpt, LineBreaksAreEscapedAndLongTextIsCutBetweenCodePoints) {
  EXPECT_EQ(excerpt("a\tb\nc"), "a\\tb\\nc");
  EXPECT_EQ(excerpt(std::string(100, 'x')), std::string(100, 'x'));
  EXPECT_EQ(excerpt(std::string(101, 'x')), std::string(100, 'x') + "...");
  EXPECT_EQ(excerpt(std::string(99, 'x') + "\xc3\xa9"), std::string(99, 'x') + "...");
  EXPECT_EQ(excerpt("\xff\xff\xff", 2), "\\xff\\xff...");
  EXPECT_EQ(excerpt(""), "");
}

}  // namespace
}  // namespace vaecf
