// Malformed and unusual input is either read as intended, or counted and reported.

#include <gtest/gtest.h>

#include <limits>

#include "data/prepare/filter.hpp"
#include "data/prepare/provenance.hpp"
#include "data/support.hpp"

namespace vaecf::data {
namespace {

class MalformedInput : public test::SourceTest {
 protected:
  test::ReadSource read(const std::string& text) {
    source_.rating_column = "2";
    return read_text("user,item,rating\n" + text);
  }
  test::ReadSource read_dat(const std::string& text, double min_rating = 4.0) {
    wanted_.min_rating = min_rating;
    return read_text(text, "movielens_dat");
  }
};

const std::string good = "1,10,5\n1,11,4.0\n2,10,4\n2,12,4.5\n3,10,3\n3,11,5\n4,10,4\n4,11,5\n";

TEST_F(MalformedInput, LinesAreCountedAndReportedWithFileAndLine) {
  const test::ReadSource ratings =
      read(good + "5,,5\n,10,5\n5,10,\n5,10,good\n5,10,nan\n5,10\n\"5\"x,10,5\n5,10,bad\n");
  EXPECT_EQ(ratings.events.size(), 8);
  Texts issues;
  for (const DataIssue& issue : ratings.issues.list()) {
    const std::string& example = issue.examples.at(0);
    issues.push_back(format("{} {}, {}", issue.count, issue.what, example.substr(example.rfind("table"))));
  }
  EXPECT_EQ(issues, (Texts{"1 the item id is empty, table.csv:10: '5,,5'",
                           "1 the user id is empty, table.csv:11: ',10,5'",
                           "1 the rating is empty, table.csv:12: '5,10,'",
                           "2 the rating is not a number, table.csv:13: '5,10,good'",
                           "1 the rating is not a finite number, table.csv:14: '5,10,nan'",
                           "1 too few columns, table.csv:15: '5,10'",
                           "1 text follows a closing quote, table.csv:16: '\"5\"x,10,5'"}));
  EXPECT_EQ(ratings.issues.list()[3].examples.size(), 2u);
  EXPECT_EQ(ratings.lines, 16);
}

TEST_F(MalformedInput, StrictModeNamesTheLine) {
  wanted_.strict = true;
  const std::string header = "userId,movieId,rating,timestamp\n";
  struct Case {
    const char* format;
    std::string text;
    std::string message;
  };
  for (const auto& [format, text, message] : std::initializer_list<Case>{
           {"movielens_csv", header + "1,2,5\n1,2\n", "/table.csv:3: '1,2': too few columns"},
           {"movielens_csv", header + ",2,5\n", "/table.csv:2: ',2,5': the user id is empty"},
           {"movielens_csv", header + "1, ,5\n", "/table.csv:2: '1, ,5': the item id is empty"},
           {"movielens_csv", header + "1,2,,3\n", "/table.csv:2: '1,2,,3': the rating is empty"},
           {"movielens_csv", "user,movieId,rating\n1,2,3\n", "/table.csv:1: there is no column 'userId'"},
           {"movielens_csv", "userId,movieId,rating,movieId\n1,2,3,4\n",
            "/table.csv:1: several columns are called 'movieId'"},
           {"movielens_csv", "\nuserId,movieId,rating\n\n1,2,5\n\r\n1,2,x\n", "/table.csv:6: "},
           {"movielens_100k", "1::2::3::4\n", "/table.csv:1: '1::2::3::4': too few columns"},
           {"movielens_csv", "", "the file is empty"},
           {"movielens_dat", "", "contains no ratings"},
           {"movielens_csv", header, "contains no ratings"},
           {"movielens_dat", "\n\n", "contains no ratings"}}) {
    expect_in(refusal_of(text, format), {message});
  }
  for (const std::string rating : {"nan", "NaN", "inf", "-inf", "good", "4,5", "4.0.0", "1e999", "0x4", ""}) {
    expect_in(refusal_of("1::2::5::0\n1::3::" + rating + "::0\n", "movielens_dat"),
              {"/table.csv:2: '1::3::" + rating + "::0': the rating is",
               "; correct or remove it, or omit --strict"});
  }
  EXPECT_LT(refusal_of("1::2::" + std::string(1000, 'z') + "\x01\x1b[0m", "movielens_dat").size(), 500u);
  const std::string binary = refusal_of(std::string("\x1f\x08\x00garbage", 10), "movielens_dat");
  expect_in(binary, {"\\x1f"});
  EXPECT_EQ(binary.find('\x1f'), std::string::npos);
}

TEST_F(MalformedInput, RejectsInvalidSources) {
  expect_in(message_of<InputError>([&] { read("1;10;5\n2;10;5\n3,10,5\n"); }),
            {"table.csv:2: '1;10;5': too few columns; 2 of 3 lines cannot be read"});
  source_ = {};
  source_.user_column = "0";
  source_.item_column = "1";
  EXPECT_EQ(read_text("a,b\n1,2\n").events.size(), 1);
  const SourceOptions whole = source_;
  const auto expect = [&](const auto& change, const char* part) {
    change(source_);
    expect_in(message_of<InputError>([&] { SourceTest::read(); }), {part});
    source_ = whole;
  };
  expect([&](auto& s) { s.path = folder_.path("absent.csv"); }, "absent.csv: no such file");
  expect([&](auto& s) { s.path = ""; }, "data.source.path is empty");
  expect([&](auto& s) { s.path = folder_.path(""), s.format = "movielens_csv"; }, "contains no ratings.csv");
  expect([](auto& s) { s.format = "movielens"; }, "'movielens' is unknown");
  expect([](auto& s) { s.separator = "\n"; }, "data.source.separator");
  expect([](auto& s) { s.item_column = "0"; }, "must be two different columns");
  expect([](auto& s) { s.item_column = "a"; }, "the same column 0");
  expect([](auto& s) { s.header = false, s.user_column = "a"; },
         "no column 'a', which data.source names; the table has 2 columns (no header)");
}

TEST_F(MalformedInput, HeaderWithAnotherSeparatorIsNamed) {
  source_ = {};
  const auto refusal = [&](const std::string& text) {
    return message_of<InputError>([&] { read_text(text); });
  };
  expect_in(refusal("client;product\n1;2\n"),
            {"has a usual name", "; if ';' separates the columns, set data.source.separator"});
  EXPECT_EQ(refusal("client,product\n1,2\n").find("separates"), std::string::npos);
  source_.user_column = "client";
  source_.item_column = "product";
  expect_in(refusal("client|product\n1|2\n"),
            {"there is no column 'client'", "; if '|' separates the columns, set data.source.separator"});
}

TEST_F(MalformedInput, MinRatingIsInclusiveOnHalfStars) {
  const std::string text = "1::1::3.5\n1::2::4.0\n1::3::4\n1::4::4.5\n1::5::0.5\n1::6::5\n";
  EXPECT_EQ(read_dat(text, 4.0).pairs, (Texts{"-1/1", "1/2", "1/3", "1/4", "-1/5", "1/6"}));
  EXPECT_EQ(read_dat(text, 3.5).pairs, (Texts{"1/1", "1/2", "1/3", "1/4", "-1/5", "1/6"}));
  EXPECT_EQ(read_dat(text, 4.5).pairs, (Texts{"-1/1", "-1/2", "-1/3", "1/4", "-1/5", "1/6"}));
}

TEST_F(MalformedInput, AllIdsAreStringsIfOneIsNotAnInteger) {
  const test::ReadSource text_items = read_dat("9::10::5\n10::SOAK::5\n9::007::5\n10::10::5\n");
  EXPECT_EQ(text_items.user_ids.numbers, (Integers{9, 10}));
  EXPECT_EQ(text_items.item_ids.strings, (Texts{"10", "SOAK", "007"}));
  EXPECT_EQ(text_items.pairs, (Texts{"9/10", "10/SOAK", "9/007", "10/10"}));
  const test::ReadSource both = read_dat("9::1::5\nb80344::x::5\n9223372036854775808::1::5\n");
  EXPECT_EQ(both.user_ids.strings, (Texts{"9", "b80344", "9223372036854775808"}));
  EXPECT_EQ(both.item_ids.strings, (Texts{"1", "x"}));
  // 7 and 007 are different ids and print exactly as in the source.
  EXPECT_EQ(read_dat("7::1::5\n007::1::5\n").user_ids.strings, (Texts{"7", "007"}));
  EXPECT_EQ(read_dat("-9223372036854775808::0::5\n9223372036854775807::0::5\n").user_ids.numbers,
            (Integers{std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}));
  // Those of dropped lines neither turn the others into strings nor change their order.
  const test::ReadSource dropped = read(good + "abc,,5\n,abc,5\n" + std::string("xyz,a\0b,5\n", 10));
  EXPECT_EQ(dropped.user_ids.numbers, (Integers{1, 2, 3, 4}));
  EXPECT_EQ(dropped.item_ids.numbers, (Integers{10, 11, 12}));
  EXPECT_EQ(dropped.issues.lines_dropped(), 3);
}

TEST_F(MalformedInput, IdsOfTextAreNoReasonToWarnUnlessOthersAreIntegers) {
  const auto warnings = [&](const std::string& text) {
    log_ = Log(Verbosity::quiet, true);
    ::testing::internal::CaptureStderr();
    read_dat(text);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(warnings("a::x1::5\nb::x2::5\n"), "");
  EXPECT_EQ(warnings("a::x1::5\n7::8::5\nb::x2::5\n"), "");
  expect_in(warnings("7::x1::5\nb::x2::5\n"), {"warning: ", ":2: user id 'b' is not an integer"});
  // A header that is read as data.
  expect_in(warnings("user::item::5\n7::8::5\n9::8::5\n"),
            {":1: user id 'user' is not an integer, but all others are", "data.source.header",
             ":1: item id 'item' is not"});
}

TEST_F(MalformedInput, InvalidIdsAreReported) {
  const test::ReadSource ratings = read("caf\xE9,1,5\nb\xC3\xA9,1,5\n" + std::string(5000, 'x') + ",1,5\n" +
                                        std::string("z\0z", 3) + ",1,5\ncaf\xE9,2,5\n");
  EXPECT_EQ(ratings.user_ids.strings, (Texts{"caf\xE9", "b\xC3\xA9"}));
  EXPECT_EQ(ratings.problems(),
            (Texts{"the user id is not UTF-8 and is stored unchanged",
                   "the user id is longer than 4096 bytes", "the user id contains a zero byte"}));
  EXPECT_FALSE(ratings.issues.list()[0].dropped);
  EXPECT_EQ(ratings.issues.list()[0].count, 1);
}

TEST_F(MalformedInput, IdsThatMeanMissingAreDroppedUnlessInQuotes) {
  const test::ReadSource ratings = read_text(
      "user,item\nnan,10\n1,NA\n1,10\n2,<NA>\nNone,11\n2,11\n\\N,1\nNULL,1\n\"NA\",12\n3,\"null\"\n3, NaN \n"
      "4,10\n5,10\n6,10\n7,10\n8,10\n9,10\n");
  EXPECT_EQ(test::texts_of(ratings.user_ids), (Texts{"1", "2", "NA", "3", "4", "5", "6", "7", "8", "9"}));
  EXPECT_EQ(test::texts_of(ratings.item_ids), (Texts{"10", "11", "12", "null"}));
  EXPECT_EQ(ratings.issues.lines_dropped(), 7);
  expect_in(ratings.problems()[0], {"the user id is nan, which stands for a missing value"});
  expect_in(ratings.problems()[1], {"the item id is NA, which stands for a missing value"});
}

TEST_F(MalformedInput, RepeatedPairsAreReportedWithTheirLines) {
  test::ReadSource ratings = read("1,10,5\n\n1,11,5\n1,10,2\nx,1,oops\n2,10,5\n1,10,5\n");
  PrepareOptions options = test::paper_options();
  options.min_user_items = 1;
  PrepareReport report;
  Filter(ratings, options, report, progress_);
  EXPECT_EQ(report.duplicates_dropped, 2);
  const DataIssue& issue = ratings.issues.list().back();
  EXPECT_EQ(issue.count, 2);
  ASSERT_EQ(issue.examples.size(), 2u);
  expect_in(issue.examples[0], {"table.csv:5: user 1, item 10"});
  expect_in(issue.examples[1], {"table.csv:8: user 1, item 10"});
  wanted_.strict = true;
  test::ReadSource again = read("1,10,5\n1,10,5\n");
  EXPECT_THROW(Filter(again, options, report, progress_), InputError);
}

TEST_F(MalformedInput, SourceAttributeHasNameSizeAndDigest) {
  const auto path = folder_.write("ratings", "1::2::5\n");
  EXPECT_EQ(describe_sources({path}), "ratings (8 bytes, xxh128 5ef60158ddf72f58f909d7b917f6852e)");
  expect_in(describe_sources(std::vector<std::string>(20, path)), {"20 files, 160 bytes"});
  std::stop_source unwanted;
  unwanted.request_stop();
  expect_in(describe_sources({path}, unwanted.get_token()), {"(0 bytes"});
}

}  // namespace
}  // namespace vaecf::data
