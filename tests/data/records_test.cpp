// Line ends, quoted fields with line breaks, and limits of lines.
#include <vaecf/base/error.hpp>
#include <vaecf/data/table.hpp>

#include <gtest/gtest.h>

#include <sstream>

#include "data/ratings_support.hpp"
#include "data/support.hpp"

namespace vaecf::data {
namespace {

using Texts = std::vector<std::string>;
using RecordRows = std::vector<Texts>;

class Records : public test::SourceTest {
 protected:
  // All fields of all records, each with the number of its first line in front.
  RecordRows rows(std::string_view text, TableLayout layout = {.separator = ",", .quotes = true}) {
    LineReader lines(io::SourceReader({folder_.write("table.csv", text)}, [](auto&) { return true; }),
                     progress_);
    EXPECT_TRUE(lines.next_file());
    Table table(lines, layout);
    table.require(1);
    RecordRows all;
    while (table.next()) {
      all.push_back({std::to_string(table.number())});
      all.back().insert(all.back().end(), table.fields().begin(), table.fields().end());
    }
    return all;
  }
  std::string refusal_of(std::string_view text) {
    return message_of<InputError>([&] { rows(text); });
  }
  Texts pairs(const test::ReadSource& ratings) {
    Texts all;
    for (std::size_t e = 0; e < ratings.columns.user.size(); ++e) {
      all.push_back(ratings.user_ids.text(ratings.columns.user[e]) + "/" +
                    ratings.item_ids.text(ratings.columns.item[e]));
    }
    return all;
  }
};

TEST_F(Records, LoneCarriageReturnsEndLinesIfTheFirstOneDoes) {
  const RecordRows expected = {{"1", "a", "b"}, {"2", "c", "d"}, {"4", "e", "f"}};
  EXPECT_EQ(rows("a,b\rc,d\r\re,f\r"), expected);
  EXPECT_EQ(rows("a,b\rc,d\r\re,f"), expected);
  EXPECT_EQ(rows("a,b\r\nc,d\r\n\r\ne,f\r\n"), expected);
  EXPECT_EQ(rows("a,b\nc,d\n\ne,f"), expected);
  EXPECT_EQ(rows("a,b\r\r\nc,d\r\r\n\r\r\ne,f\r\r\n"), expected) << "CRLF written in text mode";
  EXPECT_EQ(rows("a,b\r"), (RecordRows{{"1", "a", "b"}}));
  EXPECT_EQ(rows("a,b\nc\rx,d\n"), (RecordRows{{"1", "a", "b"}, {"2", "c\rx", "d"}}));
}

TEST_F(Records, CarriageReturnAtTheEndOfABlockIsFollowedByTheNextByte) {
  for (const std::string end : {"\r\n", "\r", "\n"}) {
    const std::string first((std::size_t{1} << 20) - 3, 'x');
    const RecordRows read = rows(first + ",b" + end + "c,d" + end);
    ASSERT_EQ(read.size(), 2u);
    EXPECT_EQ(read[1], (Texts{"2", "c", "d"}));
  }
}

TEST_F(Records, QuotedFieldsContainLineBreaks) {
  EXPECT_EQ(rows("1,\"two\nlines\",x\n2,b\n"), (RecordRows{{"1", "1", "two\nlines"}, {"3", "2", "b"}}));
  EXPECT_EQ(rows("1,a,\"not\n\nread \"\"here\"\"\n,\"\n2,b,\"x\"\n"),
            (RecordRows{{"1", "1", "a"}, {"5", "2", "b"}}));
  EXPECT_EQ(rows("\"a\r\nb\",c\r\nd,e\r\n"), (RecordRows{{"1", "a\r\nb", "c"}, {"3", "d", "e"}}));
  EXPECT_EQ(rows("1, \"a,\nb\" ,x\n2,say \"no\n3,4\n"),
            (RecordRows{{"1", "1", "a,\nb"}, {"3", "2", "say \"no"}, {"4", "3", "4"}}));
  EXPECT_EQ(rows("\"a \n\nb\",c"), (RecordRows{{"1", "a \n\nb", "c"}}));
  const TableLayout plain{.separator = ",", .quotes = false};
  EXPECT_EQ(rows("1,\"two\n2,lines\"\n", plain), (RecordRows{{"1", "1", "\"two"}, {"2", "2", "lines\""}}));
  const TableLayout wide{.separator = "::", .quotes = true};
  EXPECT_EQ(rows("1::\"a::\nb\"\n2::c\n", wide), (RecordRows{{"1", "1", "a::\nb"}, {"3", "2", "c"}}));
}

TEST_F(Records, LongQuotedFieldsCrossBlocks) {
  std::string field;
  while (field.size() < (std::size_t{3} << 20)) field += "a line of text, with a \"\"quote\"\"\n";
  const RecordRows read = rows("1,x,\"" + field + "\"\n2,y,\n");
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0], (Texts{"1", "1", "x"}));
  EXPECT_EQ((Texts{read[1].begin() + 1, read[1].end()}), (Texts{"2", "y"}));
}

TEST_F(Records, RatingsWithLineBreaksAreReadAndCounted) {
  source_.user_column = "user";
  source_.item_column = "item";
  const test::ReadSource ratings =
      read("delimited", folder_.write("text.csv",
                                      "user,item,text\n1,a,\"two\nlines\"\n2,a,\"say \"\"hi\"\", "
                                      "then\n3,zz, gone\"\n2,c,\n"));
  EXPECT_EQ(pairs(ratings), (Texts{"1/a", "2/a", "2/c"}));
  ASSERT_EQ(ratings.issues.list().size(), 1u);
  EXPECT_EQ(ratings.issues.list()[0].count, 2);
  EXPECT_FALSE(ratings.issues.list()[0].dropped);
  expect_in(ratings.issues.list()[0].examples[0], {"text.csv:2: '1,a,\"two\\nlines\"'"});
  EXPECT_EQ(ratings.location(2), folder_.path("text.csv") + ":6");
  wanted_.strict = true;
  EXPECT_EQ(read("delimited", folder_.path("text.csv")).events.size(), 3) << "such records are well-formed";
}

TEST_F(Records, HeaderMayHaveSeveralLines) {
  source_.user_column = "user";
  source_.item_column = "the\nitem";
  EXPECT_EQ(pairs(read("delimited", folder_.write("h.csv", "user,\"the\nitem\"\n1,a\n"))), (Texts{"1/a"}));
}

TEST_F(Records, QuoteThatIsNotClosedIsAnErrorWithItsLine) {
  expect_in(refusal_of("1,a\n2,\"b\n3,c\n"),
            {"table.csv:2: '2,\"b", "is not closed before the end of the file", "data.source.quotes: false"});
  std::string text = "1,a\n2,\"";
  while (text.size() < LineReader::max_line_bytes + 4000) text += std::string(999, 'x') + "\n";
  expect_in(refusal_of(text + "\"\n"), {"table.csv:2: ", "is not closed within 64 MiB"});
}

TEST_F(Records, LineAboveTheLimitIsAnErrorWithItsNumber) {
  expect_in(refusal_of("1,a\n2," + std::string(LineReader::max_line_bytes, 'x') + "\n3,b\n"),
            {"table.csv:2: the line is longer than 64 MiB"});
}

}  // namespace
}  // namespace vaecf::data
