// Tables of ratings: lines, quoted fields, columns, headers and times.
#include <vaecf/data/date.hpp>
#include <vaecf/data/table.hpp>

#include <gtest/gtest.h>

#include "data/support.hpp"

namespace vaecf::data {
namespace {

using Rows = std::vector<Texts>;

class Tables : public test::SourceTest {
 protected:
  template <class Work>
  void read_table(std::string_view text, const TableLayout& layout, Work work) {
    LineReader lines(io::SourceReader({folder_.write("table.csv", text)}, [](auto&) { return true; }),
                     progress_);
    EXPECT_TRUE(lines.next_file());
    Table table(lines, layout);
    work(table);
  }
  // All fields of all records, each with the number of its first line in front.
  Rows rows(std::string_view text, const TableLayout& layout = {.separator = ",", .quotes = true}) {
    Rows all;
    read_table(text, layout, [&](Table& table) {
      table.require(1);
      while (table.next()) {
        all.push_back({std::to_string(table.number())});
        all.back().insert(all.back().end(), table.fields().begin(), table.fields().end());
      }
    });
    return all;
  }
  std::string refusal_of_rows(std::string_view text) {
    return message_of<InputError>([&] { rows(text); });
  }
  // How the columns 0 and 1 are found in a table that begins with `header`.
  std::string found(std::string_view header) {
    std::string columns;
    read_table(header, {.separator = ",", .header = true}, [&](Table& table) {
      table.column("0", "the test reads");
      table.column("1", "the test reads");
      columns = table.columns_found();
    });
    return columns;
  }
};

TEST(FieldSplitterTest, SplitsQuotedCsvFields) {
  const auto split = [](std::string_view line, const std::string& separator = ",", bool quotes = true) {
    FieldSplitter splitter(separator, quotes);
    if (!splitter.split(line, 10)) return Texts{"(not closed)"};
    return Texts{splitter.fields().begin(), splitter.fields().end()};
  };
  EXPECT_EQ(split("a,b,c"), (Texts{"a", "b", "c"}));
  EXPECT_EQ(split("\"a\",\"b,c\",d"), (Texts{"a", "b,c", "d"}));
  EXPECT_EQ(split("\"say \"\"yes\"\", please\",\"\""), (Texts{"say \"yes\", please", ""}));
  EXPECT_EQ(split(" \"a\" , b"), (Texts{"a", "b"}));
  EXPECT_EQ(split("a \"b\" c,d"), (Texts{"a \"b\" c", "d"}));
  EXPECT_EQ(split("\"a,b"), Texts{"(not closed)"});
  EXPECT_EQ(split("\"a\"b,c"), Texts{"(not closed)"});
  EXPECT_EQ(split("\"a\"::\"b::c\"", "::"), (Texts{"a", "b::c"}));
  EXPECT_EQ(split("\"a\","), (Texts{"a", ""}));
  EXPECT_EQ(split("\"a,b", ",", false), (Texts{"\"a", "b"}));
  EXPECT_EQ(split(""), Texts{""});
  EXPECT_EQ(split("  \"a b\" c", " "), (Texts{"", "", "a b", "c"}));
  FieldSplitter splitter(",", true);
  splitter.split("a,b,c", 2);
  EXPECT_EQ(splitter.fields().size(), 2u);
  EXPECT_TRUE(splitter.more());
  splitter.split("a,\"b\"", 2);
  EXPECT_FALSE(splitter.more());
}

TEST(FieldSplitterTest, QuotedFieldsAreThoseEnclosedInQuotes) {
  FieldSplitter splitter(",", true, true);
  ASSERT_TRUE(splitter.split("a, \"b\",\"c \"\"d\"\"\",\"\",\"e\" f,g \"h\",\"i\"", 10));
  std::vector<bool> quoted;
  for (std::size_t field = 0; field < splitter.fields().size(); ++field)
    quoted.push_back(splitter.quoted(field));
  EXPECT_EQ(quoted, (std::vector<bool>{false, true, true, true, false, false, true}));
}

TEST_F(Tables, LoneCarriageReturnsEndLinesIfTheFirstOneDoes) {
  const Rows expected = {{"1", "a", "b"}, {"2", "c", "d"}, {"4", "e", "f"}};
  for (const std::string end : {"\r", "\r\n", "\n", "\r\r\n"}) {  // the last: CRLF written in text mode
    EXPECT_EQ(rows("a,b" + end + "c,d" + end + end + "e,f" + end), expected);
    EXPECT_EQ(rows("a,b" + end + "c,d" + end + end + "e,f"), expected);
    EXPECT_EQ(rows("a,b" + end), (Rows{{"1", "a", "b"}}));
    const std::string to_the_end_of_a_block((std::size_t{1} << 20) - 3, 'x');
    EXPECT_EQ(rows(to_the_end_of_a_block + ",b" + end + "c,d" + end).at(1), (Texts{"2", "c", "d"}));
  }
  EXPECT_EQ(rows("a,b\nc\rx,d\n"), (Rows{{"1", "a", "b"}, {"2", "c\rx", "d"}}));
}

TEST_F(Tables, QuotedFieldsContainLineBreaks) {
  EXPECT_EQ(rows("1,\"two\nlines\",x\n2,b\n"), (Rows{{"1", "1", "two\nlines"}, {"3", "2", "b"}}));
  EXPECT_EQ(rows("1,a,\"not\n\nread \"\"here\"\"\n,\"\n2,b,\"x\"\n"),
            (Rows{{"1", "1", "a"}, {"5", "2", "b"}}));
  EXPECT_EQ(rows("\"a\r\nb\",c\r\nd,e\r\n"), (Rows{{"1", "a\r\nb", "c"}, {"3", "d", "e"}}));
  EXPECT_EQ(rows("1, \"a,\nb\" ,x\n2,say \"no\n3,4\n"),
            (Rows{{"1", "1", "a,\nb"}, {"3", "2", "say \"no"}, {"4", "3", "4"}}));
  EXPECT_EQ(rows("\"a \n\nb\",c"), (Rows{{"1", "a \n\nb", "c"}}));
  EXPECT_EQ(rows("1,\"two\n2,lines\"\n", {.separator = ",", .quotes = false}),
            (Rows{{"1", "1", "\"two"}, {"2", "2", "lines\""}}));
  EXPECT_EQ(rows("1::\"a::\nb\"\n2::c\n", {.separator = "::", .quotes = true}),
            (Rows{{"1", "1", "a::\nb"}, {"3", "2", "c"}}));
  std::string field;  // longer than the blocks of the reader
  while (field.size() < (std::size_t{3} << 20)) field += "a line of text, with a \"\"quote\"\"\n";
  const Rows read = rows("1,x,\"" + field + "\"\n2,y,\n");
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0], (Texts{"1", "1", "x"}));
  EXPECT_EQ((Texts{read[1].begin() + 1, read[1].end()}), (Texts{"2", "y"}));
}

TEST_F(Tables, RatingsWithLineBreaksAreReadAndCounted) {
  use("user", "the\nitem");
  const std::string text =
      "user,\"the\nitem\",text\n1,a,\"two\nlines\"\n2,a,\"say \"\"hi\"\", then\n3,zz, gone\"\n2,c,\n";
  const test::ReadSource ratings = read_text(text);
  EXPECT_EQ(ratings.pairs, (Texts{"1/a", "2/a", "2/c"}));
  ASSERT_EQ(ratings.issues.list().size(), 1u);
  EXPECT_EQ(ratings.issues.list()[0].count, 2);
  EXPECT_FALSE(ratings.issues.list()[0].dropped);
  expect_in(ratings.issues.list()[0].examples[0], {"table.csv:3: '1,a,\"two\\nlines\"'"});
  EXPECT_EQ(ratings.location(2), folder_.path("table.csv") + ":7");
  wanted_.strict = true;
  EXPECT_EQ(read_text(text).events.size(), 3) << "such records are well-formed";
}

TEST_F(Tables, QuoteThatIsNotClosedAndTooLongLinesAreErrors) {
  expect_in(refusal_of_rows("1,a\n2,\"b\n3,c\n"),
            {"table.csv:2: '2,\"b", "is not closed before the end of the file", "data.source.quotes: false"});
  std::string lines_of_text(LineReader::max_line_bytes + 4000, 'x');
  for (std::size_t at = 999; at < lines_of_text.size(); at += 1000) lines_of_text[at] = '\n';
  expect_in(refusal_of_rows("1,a\n2,\"" + lines_of_text + "\"\n"),
            {"table.csv:2: ", "is not closed within 64 MiB"});
  expect_in(refusal_of_rows("1,a\n2," + std::string(LineReader::max_line_bytes, 'x') + "\n3,b\n"),
            {"table.csv:2: the line is longer than 64 MiB"});
}

TEST_F(Tables, LinesMayCrossBlocks) {
  std::string text;
  Texts expected;
  for (int i = 0; i < 120000; ++i) {  // more than a block of the reader
    expected.push_back(format("{}/{}", i, i % 1000));
    text += format("{}::{}::5\n", i, i % 1000);
  }
  ASSERT_GT(text.size(), std::size_t{1} << 20);
  EXPECT_TRUE(read_text(text, "movielens_dat").pairs == expected);
  // A line longer than three blocks, whose last column is not read.
  EXPECT_EQ(read_text("1::2::5::" + std::string(3 << 20, 'x') + "\n3::4::5\n", "movielens_dat").pairs,
            (Texts{"1/2", "3/4"}));
}

// As pandas writes a frame whose columns have no names.
TEST_F(Tables, NumberIsANameIfTheHeaderHasItAndAnIndexOtherwise) {
  EXPECT_EQ(read_text(",0,1,2\n0,424,4076,993.0\n1,1311,1574,957.0\n2,424,1574,1.0\n").pairs,
            (Texts{"424/4076", "1311/1574", "424/1574"}));
  EXPECT_EQ(found(",0,1,2\n"), "column 1 for \"0\" (by name), column 2 for \"1\" (by name)");
  EXPECT_EQ(read_text("who,what,0\n7,31,4\n8,32,5\n").pairs, (Texts{"4/31", "5/32"}));
  EXPECT_EQ(read_text("who,what,2\n7,31,4\n8,32,5\n").pairs, (Texts{"7/31", "8/32"}));
  EXPECT_EQ(found("who,what,2\n"), "column 0 for \"0\" (by index), column 1 for \"1\" (by index)");
}

TEST_F(Tables, HeaderOfNumbersWithTwoReadingsIsAnError) {
  expect_in(refusal_of("1,0\n5,0\n5,7\n6,7\n"),
            {"table.csv:1: '1,0'", "\"0\"", "is the name of column 1 and the index of column 0",
             "data.source.header: false", "give the columns other names"});
  EXPECT_EQ(read_text("0,1\n5,0\n5,7\n6,7\n").pairs, (Texts{"5/0", "5/7", "6/7"}));
  expect_in(refusal_of("1,0,2010-10-19T12:00:00Z\n5,0,2010-10-19\n"), {"only numbers or dates"});
  source_.header = false;
  EXPECT_EQ(read_text("1,0\n5,0\n5,7\n6,7\n").pairs, (Texts{"1/0", "5/0", "5/7", "6/7"}));
}

TEST_F(Tables, DataReadAsAHeaderIsReported) {
  const std::string text =
      "A39HTATAQ9V7YF,0205616461,5.0,1369699200\nA3JM6GV9MNOF9X,0558925278,3.0,1355443200\n"
      "A1Z513UWSAAO0F,0558925278,5.0,1404691200\n";
  source_.rating_column = "2";
  const test::ReadSource ratings = read_text(text);
  EXPECT_EQ(ratings.pairs, (Texts{"-A3JM6GV9MNOF9X/0558925278", "A1Z513UWSAAO0F/0558925278"}));
  ASSERT_EQ(ratings.issues.list().size(), 1u);
  EXPECT_FALSE(ratings.issues.list()[0].dropped);
  expect_in(ratings.problems()[0], {"data.source.header: false"});
  expect_in(ratings.issues.list()[0].examples[0],
            {"table.csv:1: 'A39HTATAQ9V7YF,0205616461,5.0,1369699200'"});
  wanted_.strict = true;
  expect_in(refusal_of(text), {"table.csv:1: 'A39H", "data.source.header: false"});
  source_.header = false;
  EXPECT_EQ(read_text(text).pairs.at(0), "A39HTATAQ9V7YF/0205616461");
  wanted_.strict = false;
  source_.header = true;
  source_.rating_column = "";
  source_.time_column = "2";
  EXPECT_EQ(read_text("7,8,2005-09-06\n7,9,2005-09-07\n").issues.list().size(), 1u);
  EXPECT_TRUE(read_text("user,item,date\n1,3,2005-09-07\n").issues.list().empty());
  source_.time_column = "2005";  // a name
  EXPECT_TRUE(read_text("user,item,2005\n1,3,7\n").issues.list().empty());
}

// As `cat part-*.csv` makes it.
TEST_F(Tables, RepeatedHeadersAreDroppedBeforeIdsAreRead) {
  use("user", "item");
  const test::ReadSource ratings = read_text("user,item\n1,10\nuser,item\n2,11\nuser,item\n3,12\n");
  EXPECT_EQ(ratings.user_ids.numbers, (Integers{1, 2, 3})) << "no id is a string";
  EXPECT_EQ(ratings.problems(), Texts{"the line repeats the header"});
  EXPECT_EQ(ratings.issues.list().at(0).count, 2);
}

TEST_F(Tables, FirstLineOfExcelNamesTheSeparator) {
  use("user", "item");
  EXPECT_EQ(read_text("sep=;\r\nuser;item\r\n1;10\r\n2;\"a,b\"\r\n").pairs, (Texts{"1/10", "2/a,b"}));
  EXPECT_EQ(read_text("\xEF\xBB\xBFsep=\t\nuser\titem\n1\t10\n").pairs, Texts{"1/10"});
  source_.separator = ";";
  EXPECT_EQ(read_text("sep=;\nuser;item\n1;10\n").pairs, Texts{"1/10"});
  source_.separator = ",";
  expect_in(refusal_of("sep=;\nuser;item\n1;10\n"),
            {"table.csv:1: the first line names the separator ';', but data.source.separator is ','"});
}

TEST_F(Tables, TimesAreNumbersOrDates) {
  wanted_.time = true;
  source_.header = false;
  source_.time_column = "2";
  const test::ReadSource numbers = read_text("1,1,978300760\n1,2,978300760.5\n1,3,2005-09-06\n1,4,soon\n");
  EXPECT_EQ(numbers.columns.time, (std::vector<double>{978300760, 978300760.5}));
  ASSERT_EQ(numbers.issues.list().size(), 2U);
  EXPECT_EQ(numbers.problems()[0], "the time is a date, but a number on earlier lines");
  const test::ReadSource dates = read_text(
      "1,3,2005-09-06\n1,4,2005-09-06 13:59:01\n1,5,20050907\n1,6,\n1,7,12/31/2004\n1,8,2005-09-07\n");
  EXPECT_EQ(dates.columns.time, (std::vector<double>{1125964800, 1126015141, 1126051200}));
  EXPECT_EQ(dates.problems(),
            (Texts{"the time is a number, but a date on earlier lines", "the time is empty",
                   "the time is neither a number nor a date with the year first (2023-12-31 18:00)"}))
      << "dates with the day first are rejected";
  expect_in(refusal_of("1,3,31/12/2004 18:00\n1,4,01/02/2005 07:15\n"),
            {"table.csv:1: '1,3,31/12/2004 18:00': the time is neither",
             "2 of 2 lines cannot be read; convert the times"});
}

// Numbers such as 20050906 are in the order of time, but no seconds.
TEST_F(Tables, NumbersLikeDatesAreAWarning) {
  wanted_.time = true;
  source_.header = false;
  source_.time_column = "2";
  const auto warning = [&](const std::string& text) {
    ::testing::internal::CaptureStderr();
    log_ = Log(Verbosity::quiet, true);
    EXPECT_EQ(read_text(text).columns.time.size(), 2U);
    return ::testing::internal::GetCapturedStderr();
  };
  expect_in(warning("1,1,20050906\n1,2,20051231\n"),
            {"warning: all times are whole numbers of the form YYYYMMDD, such as 20050906"});
  for (const char* text : {"1,1,20050906\n1,2,20051331\n", "1,1,20050906\n1,2,20051231.5\n",
                           "1,1,2005-09-06\n1,2,20050907\n1,3,2005-09-08\n", "1,1,978300760\n1,2,20051231\n"})
    EXPECT_EQ(warning(text).find("YYYYMMDD"), std::string::npos) << text;
}

// Expected values from `date -u -d ... +%s`.
TEST(Dates, YearFirst) {
  const auto seconds = [](std::string_view text) {
    double value = -1;
    return parse_date(text, value) ? value : -1.0;
  };
  for (const char* same :
       {"2005-09-06T13:59:01", "2005/09/06 13:59:01", "20050906T135901", "2005-09-06t13:59:01z",
        "2005-09-06 13:59:01+00:00", "2005-09-06T15:59:01+02:00", "2005-09-06 08:29:01 -0530",
        "2005-09-06T14:59:01+01", "2005-09-06 13:59:01 UTC", "2005-09-06 13:59:01 GMT",
        "2005-09-06T13:59:01Z[UTC]", "2005-09-06T15:59:01+02:00[Europe/Paris]",
        "2005-09-06T15:59:01+02[Europe/Paris]"}) {
    EXPECT_EQ(seconds(same), 1126015141.0) << same;
  }
  EXPECT_NEAR(seconds("2005-09-06T13:59:01.25Z"), 1126015141.25, 1e-6);
  EXPECT_EQ(seconds("2005-09-06 13:59"), 1126015140.0);
  EXPECT_EQ(seconds("2004-02-29"), 1078012800.0);
  EXPECT_EQ(seconds("2019-10-01 00:00:00 UTC"), 1569888000.0);
  EXPECT_EQ(seconds("1969-12-31T23:59:00"), -60.0);
  for (const char* none : {"",
                           "2005",
                           "2005-09",
                           "2005-13-01",
                           "2005-02-29",
                           "2005-09-06 ",
                           "2005-09-06T",
                           "2005-09-06T13",
                           "2005-09-06 25:00",
                           "2005-09-06 13:60",
                           "2005-09-06 13:59:",
                           "2005-09-06 13:59:01.",
                           "06.09.2005",
                           "2005-09-06 13:59:01+",
                           "2005-09-06 13:59:01+02:",
                           "2005-09-06 13:59:01 CET",
                           "-005-09-06",
                           "2005--9-06",
                           "2005-09-06x",
                           "2005-09-06 13:59:01 UTC+1",
                           "2005-09-06T13:59:01Z[UTC",
                           "2005-09-06T13:59:01Z[UTC]x",
                           "2005-09-06T13:59:01[Europe/Paris]"}) {
    EXPECT_EQ(seconds(none), -1.0) << none;
  }
}

}  // namespace
}  // namespace vaecf::data
