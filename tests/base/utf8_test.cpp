#include <vaecf/base/utf8.hpp>

#include <gtest/gtest.h>

namespace vaecf {
namespace {

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
