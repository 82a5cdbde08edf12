// Columns by name and by index, headers, and ids that stand for missing values.
#include <vaecf/base/error.hpp>
#include <vaecf/data/table.hpp>

#include <gtest/gtest.h>

#include "data/ratings_support.hpp"
#include "data/support.hpp"

namespace vaecf::data {
namespace {

using Texts = std::vector<std::string>;

class ColumnsOfTables : public test::SourceTest {
 protected:
  test::ReadSource read(std::string_view text) {
    return SourceTest::read("delimited", folder_.write("table.csv", text));
  }
  std::string refusal_of(std::string_view text) {
    return message_of<InputError>([&] { read(text); });
  }
  static Texts ids(const io::IdList& list) {
    Texts all;
    for (std::int64_t i = 0; i < list.size(); ++i) all.push_back(list.text(i));
    return all;
  }
  void use(const std::string& user, const std::string& item) {
    source_.user_column = user;
    source_.item_column = item;
  }
  // How the columns 0 and 1 are found in a table that begins with `header`.
  std::string found(std::string_view header) {
    LineReader lines(io::SourceReader({folder_.write("table.csv", header)}, [](auto&) { return true; }),
                     progress_);
    EXPECT_TRUE(lines.next_file());
    Table table(lines, {.separator = ",", .header = true});
    table.column("0", "the test reads");
    table.column("1", "the test reads");
    return table.columns_found();
  }
};

// As pandas writes a frame whose columns have no names.
TEST_F(ColumnsOfTables, NumberIsANameIfTheHeaderHasIt) {
  const test::ReadSource ratings = read(",0,1,2\n0,424,4076,993.0\n1,1311,1574,957.0\n2,424,1574,1.0\n");
  EXPECT_EQ(ids(ratings.user_ids), (Texts{"424", "1311"}));
  EXPECT_EQ(ids(ratings.item_ids), (Texts{"4076", "1574"}));
  EXPECT_EQ(found(",0,1,2\n"), "column 1 for \"0\" (by name), column 2 for \"1\" (by name)");
}

TEST_F(ColumnsOfTables, NumberIsAnIndexOtherwise) {
  const test::ReadSource ratings = read("who,what,0\n7,31,4\n8,32,5\n");
  EXPECT_EQ(ids(ratings.user_ids), (Texts{"4", "5"})) << "0 is the name of the third column";
  use("0", "1");
  EXPECT_EQ(ids(read("who,what,2\n7,31,4\n8,32,5\n").user_ids), (Texts{"7", "8"}));
  EXPECT_EQ(found("who,what,2\n"), "column 0 for \"0\" (by index), column 1 for \"1\" (by index)");
}

TEST_F(ColumnsOfTables, HeaderOfNumbersWithTwoReadingsIsAnError) {
  const std::string message = refusal_of("1,0\n5,0\n5,7\n6,7\n");
  expect_in(message, {"table.csv:1: '1,0'", "\"0\"", "is the name of column 1 and the index of column 0",
                      "data.source.header: false", "give the columns other names"});
  EXPECT_EQ(ids(read("0,1\n5,0\n5,7\n6,7\n").user_ids), (Texts{"5", "6"})) << "both readings are the same";
  expect_in(refusal_of("1,0,2010-10-19T12:00:00Z\n5,0,2010-10-19\n"), {"only numbers or dates"});
  source_.header = false;
  EXPECT_EQ(ids(read("1,0\n5,0\n5,7\n6,7\n").user_ids), (Texts{"1", "5", "6"}));
}

TEST_F(ColumnsOfTables, DataReadAsAHeaderIsReported) {
  const std::string text =
      "A39HTATAQ9V7YF,0205616461,5.0,1369699200\nA3JM6GV9MNOF9X,0558925278,3.0,1355443200\n"
      "A1Z513UWSAAO0F,0558925278,5.0,1404691200\n";
  source_.rating_column = "2";
  const test::ReadSource ratings = read(text);
  EXPECT_EQ(ratings.columns.positive, (std::vector<std::uint8_t>{0, 1}));
  ASSERT_EQ(ratings.issues.list().size(), 1u);
  EXPECT_FALSE(ratings.issues.list()[0].dropped);
  expect_in(ratings.issues.list()[0].what, {"data.source.header: false"});
  expect_in(ratings.issues.list()[0].examples[0],
            {"table.csv:1: 'A39HTATAQ9V7YF,0205616461,5.0,1369699200'"});
  wanted_.strict = true;
  expect_in(refusal_of(text), {"table.csv:1: 'A39H", "data.source.header: false"});
  source_.header = false;
  EXPECT_EQ(read(text).columns.positive, (std::vector<std::uint8_t>{1, 0, 1}));
}

TEST_F(ColumnsOfTables, DateInTheHeaderIsReported) {
  source_.time_column = "2";
  EXPECT_EQ(read("7,8,2005-09-06\n7,9,2005-09-07\n").issues.list().size(), 1u);
  EXPECT_TRUE(read("user,item,date\n1,3,2005-09-07\n").issues.list().empty());
  source_.time_column = "2005";  // a name
  EXPECT_TRUE(read("user,item,2005\n1,3,7\n").issues.list().empty());
}

// As `cat part-*.csv` makes it.
TEST_F(ColumnsOfTables, RepeatedHeadersAreDroppedBeforeIdsAreRead) {
  use("user", "item");
  const test::ReadSource ratings = read("user,item\n1,10\nuser,item\n2,11\nuser,item\n3,12\n");
  EXPECT_EQ(ratings.user_ids.numbers, (std::vector<std::int64_t>{1, 2, 3})) << "no id is a string";
  ASSERT_EQ(ratings.issues.list().size(), 1u);
  EXPECT_EQ(ratings.issues.list()[0].what, "the line repeats the header");
  EXPECT_EQ(ratings.issues.list()[0].count, 2);
}

TEST_F(ColumnsOfTables, IdsThatMeanMissingAreDroppedUnlessInQuotes) {
  const test::ReadSource ratings = read(
      "user,item\nnan,10\n1,NA\n1,10\n2,<NA>\nNone,11\n2,11\n\\N,1\nNULL,1\n\"NA\",12\n3,\"null\"\n3, NaN \n"
      "4,10\n5,10\n6,10\n7,10\n8,10\n9,10\n");
  EXPECT_EQ(ids(ratings.user_ids), (Texts{"1", "2", "NA", "3", "4", "5", "6", "7", "8", "9"}));
  EXPECT_EQ(ids(ratings.item_ids), (Texts{"10", "11", "12", "null"}));
  EXPECT_EQ(ratings.issues.lines_dropped(), 7);
  expect_in(ratings.issues.list()[0].what, {"the user id is nan, which stands for a missing value"});
  expect_in(ratings.issues.list()[1].what, {"the item id is NA, which stands for a missing value"});
}

TEST_F(ColumnsOfTables, FirstLineOfExcelNamesTheSeparator) {
  use("user", "item");
  EXPECT_EQ(ids(read("sep=;\r\nuser;item\r\n1;10\r\n2;\"a,b\"\r\n").item_ids), (Texts{"10", "a,b"}));
  EXPECT_EQ(ids(read("\xEF\xBB\xBFsep=\t\nuser\titem\n1\t10\n").item_ids), (Texts{"10"}));
  source_.separator = ";";
  EXPECT_EQ(ids(read("sep=;\nuser;item\n1;10\n").item_ids), (Texts{"10"}));
  source_.separator = ",";
  expect_in(refusal_of("sep=;\nuser;item\n1;10\n"),
            {"table.csv:1: the first line names the separator ';', but data.source.separator is ','"});
}

}  // namespace
}  // namespace vaecf::data
