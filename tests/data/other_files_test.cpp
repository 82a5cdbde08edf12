// Folders of parts, JSON lines, and files of other programs.
#include <vaecf/base/error.hpp>

#include <gtest/gtest.h>

#include <filesystem>

#include "data/ratings_support.hpp"
#include "data/source/source_formats.hpp"
#include "data/support.hpp"
#include "support/packing.hpp"

namespace vaecf::data {
namespace {

using vaecf::testing::packed;
using Parts = std::vector<std::pair<std::string, std::string>>;  // names and contents of files
using test::Pairs;

using OtherFiles = test::PairsTest;

TEST_F(OtherFiles, FolderStandsForItsPartsInOrder) {
  source_.header = true;
  source_.user_column = "u";
  source_.item_column = "i";
  folder("parts");
  for (const auto& [name, text] : Parts{{"part-10.csv", "u,i\n5,6\n"},
                                        {"part-9.csv", "i,u\n4,3\n"},
                                        {"part-1.csv", "u,i\n1,2\n"},
                                        {"part-2.csv", ""},
                                        {"_SUCCESS", ""},
                                        {"_metadata", "u,i\n9,9\n"},
                                        {".part-1.csv.crc", "crc"}}) {
    folder_.write("parts/" + name, text);
  }
  const test::ReadSource ratings = read("delimited", folder_.path("parts"));
  EXPECT_EQ(pairs(ratings), (Pairs{"1/2", "3/4", "5/6"}));
  ASSERT_EQ(ratings.issues.list().size(), 1u);
  EXPECT_EQ(ratings.issues.list()[0].what, "the file is empty");
  EXPECT_FALSE(ratings.issues.list()[0].dropped);
  folder("parts/more");
  expect_in(refusal("delimited", folder_.path("parts")), {"contains the folder more", "/*/*.csv"});
  folder("nothing");
  folder_.write("nothing/_SUCCESS", "");
  expect_in(refusal("delimited", folder_.path("nothing")), {"this folder contains no file"});
  folder("empty");
  folder_.write("empty/a.csv", "");
  folder_.write("empty/b.csv", "");
  expect_in(refusal("delimited", folder_.path("empty")), {"contains no ratings"});
}

TEST_F(OtherFiles, FilesOfMacosInArchivesAreSkipped) {
  if (!vaecf::testing::has_libarchive) GTEST_SKIP() << vaecf::testing::without_libarchive;
  source_.header = false;
  const auto zip =
      packed({{"a.csv", "1,2\n"}, {"__MACOSX/._a.csv", "x"}, {"__MACOSX/b.csv", "3,4\n"}, {"._a.csv", "y"}},
             "zip", "none");
  EXPECT_EQ(pairs(read("delimited", folder_.write("mac.zip", zip))), (Pairs{"1/2"}));
}

TEST_F(OtherFiles, JsonLines) {
  source_.user_column = "user";
  source_.item_column = "item";
  source_.rating_column = "stars";
  source_.time_column = "at";
  wanted_.time = true;
  const test::ReadSource ratings =
      read("json_lines",
           folder_.write("r.jsonl", R"({"user": 7, "item": "a\tb", "stars": 4, "at": "2005-09-06", "x": [1]}
{"item": "c", "user": "u", "stars": 3.5, "at": "2005-09-07T00:00:00Z"}

{"user": null, "item": "c", "stars": 5, "at": "2005-09-06"}
{"user": 7, "stars": 5, "at": "2005-09-06"}
{"user": 7.5, "item": "c", "stars": 5, "at": "2005-09-06"}
{"user": 7, "item": true, "stars": 5, "at": "2005-09-06"}
{"user": 7, "item": "c", "stars": {}, "at": "2005-09-06"}
{"user": 7, "item": "nan", "stars": 5, "at": "2005-09-08"}
{"user": 18446744073709551615, "item": "c", "stars": "5", "at": "2005-09-08"}
{"user": 8, "item": "d", "stars": 5, "at": "2005-09-08"}
{"user": 9, "item": "d", "stars": 5, "at": "2005-09-08"}
[1, 2]
)"));
  EXPECT_EQ(pairs(ratings), (Pairs{"7/a\tb", "-u/c", "7/nan", "18446744073709551615/c", "8/d", "9/d"}));
  EXPECT_EQ(ratings.columns.time[0], 1125964800);
  Pairs issues;
  for (const DataIssue& issue : ratings.issues.list()) issues.push_back(issue.what);
  EXPECT_EQ(issues,
            (Pairs{"the user id is empty", "the item id is empty",
                   "the value of user is neither a string nor an integer",
                   "the value of item is neither a string nor an integer",
                   "the value of stars is neither a number nor a string", "the line is not a JSON object"}));
  expect_in(refusal("json_lines", folder_.write("p.json", "[\n{\"user\": 1,\n\"item\": 2}\n]\n")),
            {"p.json:1: '[': the line is not a JSON object"});
}

TEST_F(OtherFiles, OtherFormatsAreNamedWithTheirConversion) {
  const auto message = [&](const std::string& name, const std::string& bytes) {
    return refusal("delimited", folder_.write(name, bytes));
  };
  const std::string zeros(100, '\0');
  expect_in(message("x.parquet", "PAR1\x15\x04" + zeros),
            {"x.parquet: is a Parquet file", "pandas.read_parquet("});
  expect_in(message("x.arrow", "ARROW1" + zeros), {"is an Arrow file", "pandas.read_feather("});
  expect_in(message("x.xls", "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1" + zeros),
            {"is an Excel file", "read_excel("});
  expect_in(message("x.db", "SQLite format 3" + zeros), {"is an SQLite database", "sqlite3 -header -csv"});
  expect_in(message("x.npy", "\x93NUMPY\x01" + zeros), {"is a NumPy array", "numpy.savetxt("});
  expect_in(message("x.html", "\n<!DOCTYPE HTML><html>\n"), {"is a web page (HTML)", "fetch the file again"});
  expect_in(message("x.csv", std::string("\xFF\xFEu\0,\0", 6)), {"UTF-16", "iconv"});
  source_.header = false;
  EXPECT_EQ(pairs(read("delimited", folder_.write("text.csv", "PAR1,2\n"))), (Pairs{"PAR1/2"})) << "an id";
  if (!vaecf::testing::has_libarchive) GTEST_SKIP() << vaecf::testing::without_libarchive;
  const auto excel =
      packed({{"[Content_Types].xml", "<xml/>"}, {"xl/worksheets/sheet1.xml", "<xml/>"}}, "zip", "none");
  expect_in(message("x.xlsx", excel),
            {"x.xlsx: is an Excel file", "read_excel('" + folder_.path("x.xlsx") + "')"});
  expect_in(refusal("movielens_csv", folder_.path("x.xlsx")), {"x.xlsx: is an Excel file"});
  const auto arrays = packed({{"user.npy", "\x93NUMPY" + zeros}}, "zip", "none");
  expect_in(message("x.npz", arrays), {"x.npz/user.npy: is a NumPy array"});
}

}  // namespace
}  // namespace vaecf::data
