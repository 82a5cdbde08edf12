// Malformed and unusual input is either read as intended, or counted and reported.
#include <vaecf/base/error.hpp>
#include <vaecf/base/utf8.hpp>
#include <vaecf/data/table.hpp>

#include <gtest/gtest.h>

#include "data/prepare/filter.hpp"
#include "data/ratings_support.hpp"
#include "data/source/source_formats.hpp"
#include "data/support.hpp"

namespace vaecf::data {
namespace {

using Fields = std::vector<std::string>;

Fields split_line(std::string_view line, const std::string& separator = ",", bool quotes = true) {
  FieldSplitter splitter(separator, quotes);
  if (!splitter.split(line, 10)) return {"(not closed)"};
  return {splitter.fields().begin(), splitter.fields().end()};
}

TEST(FieldSplitterTest, SplitsQuotedCsvFields) {
  EXPECT_EQ(split_line("a,b,c"), (Fields{"a", "b", "c"}));
  EXPECT_EQ(split_line("\"a\",\"b,c\",d"), (Fields{"a", "b,c", "d"}));
  EXPECT_EQ(split_line("\"say \"\"yes\"\", please\",\"\""), (Fields{"say \"yes\", please", ""}));
  EXPECT_EQ(split_line(" \"a\" , b"), (Fields{"a", "b"}));
  EXPECT_EQ(split_line("a \"b\" c,d"), (Fields{"a \"b\" c", "d"}));
  EXPECT_EQ(split_line("\"a,b"), (Fields{"(not closed)"}));
  EXPECT_EQ(split_line("\"a\"b,c"), (Fields{"(not closed)"}));
  EXPECT_EQ(split_line("\"a\"::\"b::c\"", "::"), (Fields{"a", "b::c"}));
  EXPECT_EQ(split_line("\"a\",", ","), (Fields{"a", ""}));
  EXPECT_EQ(split_line("\"a,b", ",", false), (Fields{"\"a", "b"}));
  EXPECT_EQ(split_line("", ","), (Fields{""}));
  EXPECT_EQ(split_line("  \"a b\" c", " "), (Fields{"", "", "a b", "c"}));
  FieldSplitter splitter(",", true);
  splitter.split("a,b,c", 2);
  EXPECT_EQ(splitter.fields().size(), 2u);
  EXPECT_TRUE(splitter.more());
  splitter.split("a,\"b\"", 2);
  EXPECT_FALSE(splitter.more());
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

class MalformedInput : public test::SourceTest {
 protected:
  test::ReadSource read(const std::string& text, bool strict = false) {
    source_.rating_column = "2";
    wanted_.strict = strict;
    return SourceTest::read("delimited", folder_.write("dirty.csv", "user,item,rating\n" + text));
  }
  // "count kind, location of the first" of each issue.
  Fields issues(const test::ReadSource& ratings) {
    Fields all;
    for (const DataIssue& f : ratings.issues.list()) {
      const std::string location =
          f.examples.empty() ? "?" : f.examples[0].substr(f.examples[0].rfind("dirty.csv"));
      all.push_back(std::to_string(f.count) + " " + f.what + ", " + location);
    }
    return all;
  }
};

const std::string good = "1,10,5\n1,11,4.0\n2,10,4\n2,12,4.5\n3,10,3\n3,11,5\n4,10,4\n4,11,5\n";

TEST_F(MalformedInput, LinesAreCountedAndReportedWithFileAndLine) {
  const test::ReadSource ratings =
      read(good + "5,,5\n,10,5\n5,10,\n5,10,good\n5,10,nan\n5,10\n\"5\"x,10,5\n5,10,bad\n");
  EXPECT_EQ(ratings.events.size(), 8);
  EXPECT_EQ(issues(ratings), (Fields{"1 the item id is empty, dirty.csv:10: '5,,5'",
                                     "1 the user id is empty, dirty.csv:11: ',10,5'",
                                     "1 the rating is empty, dirty.csv:12: '5,10,'",
                                     "2 the rating is not a number, dirty.csv:13: '5,10,good'",
                                     "1 the rating is not a finite number, dirty.csv:14: '5,10,nan'",
                                     "1 too few columns, dirty.csv:15: '5,10'",
                                     "1 text follows a closing quote, dirty.csv:16: '\"5\"x,10,5'"}));
  EXPECT_EQ(ratings.issues.list()[3].examples.size(), 2u);
  EXPECT_EQ(ratings.lines, 16);
}

// Such ids neither turn the other ids into strings nor change their order.
TEST_F(MalformedInput, IdsOfDroppedLinesAreIgnored) {
  const test::ReadSource ratings = read(good + "abc,,5\n,abc,5\n" + std::string("xyz,a\0b,5\n", 10));
  EXPECT_EQ(ratings.user_ids.numbers, (std::vector<std::int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(ratings.item_ids.numbers, (std::vector<std::int64_t>{10, 11, 12}));
  EXPECT_EQ(ratings.issues.lines_dropped(), 3);
}

TEST_F(MalformedInput, RejectsASourceOfAnotherFormat) {
  const auto message = message_of<InputError>([&] { read("1;10;5\n2;10;5\n3,10,5\n"); });
  expect_in(message, {"dirty.csv:2: '1;10;5': too few columns; 2 of 3 lines cannot be read"});
}

TEST_F(MalformedInput, InvalidIdsAreReported) {
  const test::ReadSource ratings = read("caf\xE9,1,5\nb\xC3\xA9,1,5\n" + std::string(5000, 'x') + ",1,5\n" +
                                        std::string("z\0z", 3) + ",1,5\ncaf\xE9,2,5\n");
  EXPECT_EQ(ratings.user_ids.strings, (Fields{"caf\xE9", "b\xC3\xA9"}));
  ASSERT_EQ(ratings.issues.list().size(), 3u);
  EXPECT_EQ(ratings.issues.list()[0].what, "the user id is not UTF-8 and is stored unchanged");
  EXPECT_FALSE(ratings.issues.list()[0].dropped);
  EXPECT_EQ(ratings.issues.list()[0].count, 1);
  EXPECT_EQ(ratings.issues.list()[1].what, "the user id is longer than 4096 bytes");
  EXPECT_EQ(ratings.issues.list()[2].what, "the user id contains a zero byte");
}

TEST_F(MalformedInput, RepeatedPairsAreReportedWithTheirLines) {
  test::ReadSource ratings = read("1,10,5\n\n1,11,5\n1,10,2\nx,1,oops\n2,10,5\n1,10,5\n");
  PrepareOptions options;
  options.min_user_items = 1;
  PrepareReport report;
  Filter(ratings, options, report, progress_);
  EXPECT_EQ(report.duplicates_dropped, 2);
  const DataIssue& issue = ratings.issues.list().back();
  EXPECT_EQ(issue.count, 2);
  ASSERT_EQ(issue.examples.size(), 2u);
  expect_in(issue.examples[0], {"dirty.csv:5: user 1, item 10"});
  expect_in(issue.examples[1], {"dirty.csv:8: user 1, item 10"});
  EXPECT_THROW(
      {
        test::ReadSource again = read("1,10,5\n1,10,5\n", true);
        Filter(again, options, report, progress_);
      },
      InputError);
}

TEST_F(MalformedInput, RejectsUtf16) {
  expect_in(refusal("delimited", folder_.write("wide.csv", std::string("\xFF\xFEu\0,\0i\0\n\0", 10))),
            {"UTF-16"});
}

}  // namespace
}  // namespace vaecf::data
