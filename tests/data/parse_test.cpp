#include <vaecf/base/error.hpp>
#include <vaecf/data/prepare.hpp>

#include <gtest/gtest.h>

#include <limits>

#include "data/ratings_support.hpp"
#include "data/source/source_formats.hpp"
#include "data/support.hpp"

namespace vaecf::data {
namespace {

class Parse : public test::SourceTest {
 protected:
  test::ReadSource read(const std::string& format, std::string_view text, double min_rating = 4.0) {
    wanted_.min_rating = min_rating;
    return SourceTest::read(format, folder_.write("ratings", text));
  }
  test::ReadSource read(const SourceOptions& source) {
    return test::read_source(source, wanted_, log_, progress_);
  }
  // Returns the error message in strict mode.
  std::string refusal(const std::string& format, std::string_view text) {
    wanted_.strict = true;
    return SourceTest::refusal(format, folder_.write("ratings", text));
  }
  SourceOptions delimited(std::string_view text) {
    SourceOptions source;
    source.format = "delimited";
    source.path = folder_.write("ratings", text);
    return source;
  }
};

using Numbers = std::vector<std::int32_t>;
using Flags = std::vector<std::uint8_t>;
using Integers = std::vector<std::int64_t>;
using Strings = std::vector<std::string>;

void expect_three(const test::ReadSource& ratings) {
  EXPECT_EQ(ratings.user_ids.numbers, (Integers{7, 3}));
  EXPECT_EQ(ratings.item_ids.numbers, (Integers{31, 29}));
  EXPECT_EQ(ratings.columns.user, (Numbers{0, 0, 1}));
  EXPECT_EQ(ratings.columns.item, (Numbers{0, 1, 0}));
  EXPECT_EQ(ratings.columns.positive, (Flags{1, 0, 1}));
}

TEST_F(Parse, MovieLens) {
  expect_three(
      read("movielens_csv", "userId,movieId,rating,timestamp\n7,31,4.0,1\n7,29,3.5,2\n3,31,5.0,3\n"));
  expect_three(read("movielens_csv", "rating,movieId,userId\n4.0,31,7\n3.5,29,7\n5,31,3\n"));
  expect_three(read("movielens_dat", "7::31::4::1\n7::29::3.5::2\n3::31::5::3\n"));
  expect_three(read("movielens_100k", "7\t31\t4\t1\n7\t29\t3\t2\n3\t31\t5\t3\n"));
}

TEST_F(Parse, AcceptsLineEndsByteOrderMarksAndBlanks) {
  const std::string header = "userId,movieId,rating,timestamp";
  expect_three(read("movielens_csv", header + "\r\n7,31,4.0,1\r\n7,29,3.5,2\r\n3,31,5.0,3\r\n"));
  expect_three(read("movielens_csv", header + "\n7,31,4.0,1\n7,29,3.5,2\n3,31,5.0,3"));
  expect_three(read("movielens_csv", "\xEF\xBB\xBF" + header + "\n7,31,4.0,1\n7,29,3.5,2\n3,31,5.0,3\n"));
  expect_three(read("movielens_csv", header + "  \n7,31,4 ,1 \n 7 , 29 ,3.5,2   \n\n3,31,5,3\n\n \n"));
  expect_three(read("movielens_dat",
                    "\xEF\xBB\xBF"
                    "7::31::4\r\n7::29::3.5\r\n3::31::5 \r"));
}

TEST_F(Parse, FindsTheRatingsInAFolder) {
  SourceOptions source;
  source.path = folder_.path("");
  folder_.write("ratings.csv", "userId,movieId,rating\n7,31,4.0\n7,29,3.5\n3,31,5.0\n");
  folder_.write("ratings.dat", "7::31::4\n7::29::3.5\n3::31::5\n");
  folder_.write("u.data", "7\t31\t4\n7\t29\t3\n3\t31\t5\n");
  for (const char* const format : {"movielens_csv", "movielens_dat", "movielens_100k"}) {
    source.format = format;
    expect_three(read(source));
  }
}

TEST_F(Parse, DelimitedColumnsByNameAndByIndex) {
  SourceOptions source = delimited("when;who;what;stars\n1;\"7\";31;4\n1;7;29;1\n1;3;31;5\n");
  source.separator = ";";
  source.user_column = "who";
  source.item_column = "what";
  source.rating_column = "stars";
  expect_three(read(source));
  source.user_column = "1";
  source.item_column = "2";
  source.rating_column = "3";
  expect_three(read(source));
  source = delimited("1 | 7 | 31 | 4\n1 | 7 | 29 | 1\n1 | 3 | 31 | 5\n");
  source.separator = " | ";
  source.header = false;
  source.user_column = "1";
  source.item_column = "2";
  source.rating_column = "3";
  expect_three(read(source));
}

TEST_F(Parse, DelimitedWithoutRatingsKeepsEveryLine) {
  SourceOptions source = delimited("7\t31\n7\t29\n");
  source.separator = "\t";
  source.header = false;
  EXPECT_EQ(read(source).columns.positive, (Flags{1, 1}));
  source.separator = "\\t";  // as in a plain YAML scalar
  EXPECT_EQ(read(source).columns.positive, (Flags{1, 1}));
}

TEST_F(Parse, MinRatingIsInclusiveOnHalfStars) {
  const std::string_view text = "1::1::3.5\n1::2::4.0\n1::3::4\n1::4::4.5\n1::5::0.5\n1::6::5\n";
  EXPECT_EQ(read("movielens_dat", text, 4.0).columns.positive, (Flags{0, 1, 1, 1, 0, 1}));
  EXPECT_EQ(read("movielens_dat", text, 3.5).columns.positive, (Flags{1, 1, 1, 1, 0, 1}));
  EXPECT_EQ(read("movielens_dat", text, 4.5).columns.positive, (Flags{0, 0, 0, 1, 0, 1}));
}

TEST_F(Parse, AllIdsAreStringsIfOneIsNotAnInteger) {
  const auto text_items = read("movielens_dat", "9::10::5\n10::SOAK::5\n9::007::5\n10::10::5\n");
  EXPECT_EQ(text_items.user_ids.numbers, (Integers{9, 10}));
  EXPECT_EQ(text_items.item_ids.strings, (Strings{"10", "SOAK", "007"}));
  EXPECT_EQ(text_items.columns.item, (Numbers{0, 1, 2, 0}));

  const auto both = read("movielens_dat", "9::1::5\nb80344::x::5\n9223372036854775808::1::5\n");
  EXPECT_EQ(both.user_ids.strings, (Strings{"9", "b80344", "9223372036854775808"}));
  EXPECT_EQ(both.item_ids.strings, (Strings{"1", "x"}));

  // 7 and 007 are different ids and print exactly as in the source.
  EXPECT_EQ(read("movielens_dat", "7::1::5\n007::1::5\n").user_ids.strings, (Strings{"7", "007"}));
  EXPECT_EQ(read("movielens_dat", "-9223372036854775808::0::5\n9223372036854775807::0::5\n").user_ids.numbers,
            (Integers{std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}));
}

TEST_F(Parse, LinesMayCrossBlocks) {
  // Larger than the reader's block, so that lines cross its end.
  std::string text;
  const int lines = 600000;
  for (int i = 0; i < lines; ++i) text += std::to_string(i) + "::" + std::to_string(i % 1000) + "::5\n";
  const test::ReadSource ratings = read("movielens_dat", text);
  ASSERT_EQ(ratings.events.size(), lines);
  ASSERT_EQ(ratings.user_ids.size(), lines);
  for (int i = 0; i < lines; ++i) {
    ASSERT_EQ(ratings.user_ids.numbers[static_cast<std::size_t>(i)], i);
    ASSERT_EQ(ratings.columns.item[static_cast<std::size_t>(i)], i % 1000);
  }
  // A line longer than ten blocks, whose last column is not read.
  const test::ReadSource long_line =
      read("movielens_dat", "1::2::5::" + std::string(10 << 20, 'x') + "\n3::4::5\n");
  EXPECT_EQ(long_line.user_ids.numbers, (Integers{1, 3}));
  EXPECT_EQ(long_line.item_ids.numbers, (Integers{2, 4}));
}

TEST_F(Parse, RejectsRatingsThatAreNotFiniteNumbers) {
  for (const std::string rating : {"nan", "NaN", "inf", "-inf", "good", "4,5", "4.0.0", "1e999", "0x4", ""}) {
    expect_in(
        refusal("movielens_dat", "1::2::5::0\n1::3::" + rating + "::0\n"),
        {"/ratings:2: '1::3::" + rating + "::0': the rating is", "; correct or remove it, or omit --strict"});
  }
}

TEST_F(Parse, RejectsMissingColumnsAndEmptyFields) {
  const std::string header = "userId,movieId,rating,timestamp\n";
  const auto expect = [&](const char* format, const std::string& text, const char* part) {
    expect_in(refusal(format, text), {part});
  };
  expect("movielens_csv", header + "1,2,5\n1,2\n", "/ratings:3: '1,2': too few columns");
  expect("movielens_csv", header + ",2,5\n", "/ratings:2: ',2,5': the user id is empty");
  expect("movielens_csv", header + "1, ,5\n", "/ratings:2: '1, ,5': the item id is empty");
  expect("movielens_csv", header + "1,2,,3\n", "/ratings:2: '1,2,,3': the rating is empty");
  expect("movielens_csv", "user,movieId,rating\n1,2,3\n", "/ratings:1: there is no column 'userId'");
  expect("movielens_csv", "userId,movieId,rating,movieId\n1,2,3,4\n",
         "/ratings:1: several columns are called 'movieId'");
  expect("movielens_100k", "1::2::3::4\n", "/ratings:1: '1::2::3::4': too few columns");
}

TEST_F(Parse, LineNumbersCountBlankLinesAndTheHeader) {
  expect_in(refusal("movielens_csv", "\nuserId,movieId,rating\n\n1,2,5\n\r\n1,2,x\n"), {"/ratings:6: "});
}

TEST_F(Parse, MessagesShortenLongAndEscapeBinaryText) {
  const std::string message = refusal("movielens_dat", "1::2::" + std::string(1000, 'z') + "\x01\x1b[0m");
  EXPECT_LT(message.size(), 500u);
  const std::string binary = refusal("movielens_dat", std::string("\x1f\x08\x00garbage", 10));
  expect_in(binary, {"\\x1f"});
  EXPECT_EQ(binary.find('\x1f'), std::string::npos);
}

TEST_F(Parse, RejectsEmptyFiles) {
  expect_in(refusal("movielens_csv", ""), {"the file is empty"});
  expect_in(refusal("movielens_dat", ""), {"contains no ratings"});
  expect_in(refusal("movielens_csv", "userId,movieId,rating\n"), {"contains no ratings"});
  expect_in(refusal("movielens_dat", "\n\n"), {"contains no ratings"});
}

TEST_F(Parse, RejectsInvalidSources) {
  const SourceOptions good = delimited("a,b\n1,2\n");
  EXPECT_EQ(read(good).events.size(), 1);
  const auto expect = [&](const auto& change, const char* part) {
    SourceOptions source = good;
    change(source);
    expect_in(message_of<InputError>([&] { read(source); }), {part});
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

TEST_F(Parse, SourceAttributeHasNameSizeAndDigest) {
  const auto path = folder_.write("ratings", "1::2::5\n");
  EXPECT_EQ(describe_sources({path}), "ratings (8 bytes, xxh128 5ef60158ddf72f58f909d7b917f6852e)");
  const std::string many = describe_sources(std::vector<std::string>(20, path));
  expect_in(many, {"20 files, 160 bytes"});
  std::stop_source unwanted;
  unwanted.request_stop();
  expect_in(describe_sources({path}, unwanted.get_token()), {"(0 bytes"});
}

}  // namespace
}  // namespace vaecf::data
