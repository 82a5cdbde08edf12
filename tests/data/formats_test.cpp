// All formats of docs/SOURCES.md, in small files with the irregularities of the published ones.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "data/support.hpp"
#include "support/bson.hpp"

namespace vaecf::data {
namespace {

using Formats = test::SourceTest;
using FormatsInArchives = test::WithArchives<Formats>;
using vaecf::testing::Members;
using vaecf::testing::packed;

const Texts netflix_pairs = {"7/1", "-9/1", "9/2", "7/10"};
const std::string movie_1 = "1:\n7,4,2005-09-06\n9,3,2005-05-13\n";
const std::string movie_2 = "2:\n9,4,2004-12-31\n";
const std::string movie_10 = "10:\n7,5,2005-01-01\n";

TEST_F(Formats, NetflixInNumericOrder) {
  const std::vector<std::pair<Members, Texts>> cases = {
      // files of a folder, and paths that stand for them
      {{{"training_set/mv_0000010.txt", movie_10},
        {"training_set/mv_0000002.txt", movie_2},
        {"training_set/mv_0000001.txt", movie_1},
        {"probe.txt", "1:\n7\n"}},
       {"", "/training_set", "/training_set/mv_*.txt"}},
      {{{"combined_data_1.txt", movie_1 + movie_2},
        {"combined_data_2.txt", movie_10},
        {"movie_titles.csv", "1,2003,Dinosaur Planet\n"}},
       {"", "/combined_data_*.txt", "/combined_data_{2,1}.txt"}},
      {{{"010.txt", movie_10}, {"001.txt", "00" + movie_1}, {"2.txt", movie_2}, {"probe.txt", "1:\n7\n"}},
       {""}},
      {{{"mv_1.txt", "1,7,4,2005-09-06\n1,9,3,2005-05-13\n"},
        {"mv_2.txt", "2,9,4,2004-12-31\n"},
        {"mv_10.txt", "10,7,5,2005-01-01\n"}},
       {""}}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::string folder = std::to_string(i);
    for (const auto& [name, text] : cases[i].first) folder_.write(folder + "/" + name, text);
    for (const std::string& path : cases[i].second)
      EXPECT_EQ(read("netflix", folder_.path(folder + path)).pairs, netflix_pairs) << i << path;
  }
}

TEST_F(Formats, NetflixLinesThatCannotBeReadAreDropped) {
  const test::ReadSource unordered = read_text(
      "movie,user,rating,date\n10,7,5,2005-01-01\n0001,7,4,2005-09-06\n2,9,4,2004-12-31\n1,9,3,2005-05-13\n"
      "1,9,3,2005-05-13,x\n",
      "netflix");
  EXPECT_EQ(unordered.pairs, netflix_pairs);
  EXPECT_EQ(unordered.problems(), (Texts{"the movie is not an integer", "too many columns"}));
  const test::ReadSource early = read(
      "netflix", folder_.write("combined_data_1.txt", "7,4,2005-09-06\n1:\n7,4,2005-09-06\n9,3,x\n7,4\n"));
  EXPECT_EQ(early.pairs, (Texts{"7/1", "-9/1"}));
  EXPECT_EQ(early.problems(), (Texts{"no line 'N:' with the movie precedes it", "too few columns"}));
}

TEST_F(FormatsInArchives, NetflixInAnyOrder) {
  const std::string inner = packed({{"training_set/", ""},
                                    {"training_set/mv_0000010.txt", movie_10},
                                    {"training_set/mv_0000001.txt", movie_1},
                                    {"training_set/mv_0000002.txt", movie_2}},
                                   "tar", "none");
  const test::ReadSource ratings =
      read("netflix", folder_.pack("nf_prize_dataset.tar.gz", {{"download/", ""},
                                                               {"download/probe.txt", "1:\n7\n"},
                                                               {"download/training_set.tar", inner},
                                                               {"download/README", "no data"}}));
  EXPECT_EQ(ratings.pairs, netflix_pairs);
  expect_in(ratings.location(1), {"mv_0000001.txt:3"});
  expect_in(ratings.location(2), {"mv_0000002.txt:2"});
  expect_in(ratings.location(3), {"mv_0000010.txt:2"});
  const std::string zip =
      folder_.pack("netflix-prize-data.zip",
                   {{"combined_data_2.txt", movie_10}, {"combined_data_1.txt", movie_1 + movie_2}});
  EXPECT_EQ(read("netflix", zip).pairs, netflix_pairs);
}

TEST_F(Formats, LastFmUsesArtistNamesForMissingIdsAndKeepsQuotes) {
  wanted_.min_rating = 0;
  const test::ReadSource ratings = read_text(
      "u1\tm-1\tbetty \"blowtorch\t2137\nu1\t\t\"weird al\" yankovic\t12\nu2\tm-1\tbetty blowtorch\t0\n"
      "u3\tm-1\tbetty\t1\nu2\t\t\t3\nu2\tm-2\ta\tname\twith tabs\t3\nu2\tm-3\tbroken\tx\nu2\tm-4\tcut\n",
      "lastfm_360k");
  EXPECT_EQ(ratings.pairs, (Texts{"u1/m-1", "u1/name:\"weird al\" yankovic", "u2/m-1", "u3/m-1"}));
  EXPECT_EQ(ratings.problems(), (Texts{"the item id is empty", "too many columns",
                                       "the rating is not a number", "too few columns"}));
}

TEST_F(Formats, LastFm2kHasPlaysByTheNamesOfColumns) {
  const test::ReadSource ratings =
      read_text("userID\tartistID\tweight\r\n2\t51\t13883\r\n2\t52\t3\r\n3\t51\t\r\n", "lastfm_2k");
  EXPECT_EQ(ratings.pairs, (Texts{"2/51", "-2/52"}));
  EXPECT_EQ(ratings.problems(), Texts{"the rating is empty"});
}

TEST_F(FormatsInArchives, PinterestBoards) {
  if (VAECF_HAS_LIBBSON == 0) GTEST_SKIP() << "built without libbson";
  using namespace vaecf::testing;
  const std::string bson = bson_board("b1", {"p1", "p2"}) +
                           bson_document(bson_element('\x04', "pins", bson_strings({"p9"}))) +
                           bson_board("b2", {"p1", "p1"});
  const test::ReadSource ratings = read("pinterest", folder_.write("subset_iccv_board_pins.bson", bson));
  EXPECT_EQ(ratings.pairs, (Texts{"b1/p1", "b1/p2", "b2/p1", "b2/p1"}));
  EXPECT_EQ(ratings.problems(), Texts{"the board has no board_id"});
  expect_in(ratings.location(3), {"bson:3"});
  const std::string zip = folder_.pack("pinterest_iccv.zip", {{"iccv/subset_iccv_pin_im.bson", "no"},
                                                              {"iccv/subset_iccv_board_pins.bson", bson}});
  EXPECT_EQ(read("pinterest", zip).pairs, ratings.pairs);
}

TEST_F(Formats, AdjacencyListsInOneOrSeveralFiles) {
  const std::string path = folder_.write("train.txt", "0 5 7 9\n1\n2 5  5 \r\n3 11");
  EXPECT_EQ(read("adjacency", path).pairs, (Texts{"0/5", "0/7", "0/9", "2/5", "2/5", "3/11"}));
  EXPECT_EQ(read("adjacency", folder_.path("")).pairs.size(), 6u);
  folder_.write("part1.txt", "1 10 11\n");
  folder_.write("part2.txt", "2 10\n");
  EXPECT_EQ(read("adjacency", folder_.path("part*.txt")).pairs, (Texts{"1/10", "1/11", "2/10"}));
  source_.list_starts_with = ListStart::count;
  expect_in(refusal("adjacency", folder_.path("part*.txt")), {"from 0 in each file"});
  const test::ReadSource counted = read_text("2 5 7\n0\n1 5\n3 1 2\n1 9\n", "adjacency");
  EXPECT_EQ(counted.pairs, (Texts{"0/5", "0/7", "2/5", "4/9"}));
  EXPECT_EQ(counted.problems(), Texts{"the count at its start differs from the number of items after it"});
}

TEST_F(FormatsInArchives, AdjacencyOfAGivenSplit) {
  wanted_.part = true;
  folder_.write("train.txt", "0 5 7\n1 5\n");
  folder_.write("test.txt", "0 9\n1 7\n");
  using enum SplitPart;
  using Parts = std::vector<SplitPart>;
  for (const std::string& path : {folder_.path(""), folder_.path("train.txt")}) {
    const test::ReadSource ratings = read("adjacency", path);
    EXPECT_EQ(ratings.pairs, (Texts{"0/5", "0/7", "1/5", "0/9", "1/7"}));
    EXPECT_EQ(ratings.columns.part, (Parts{train, train, train, SplitPart::test, SplitPart::test}));
  }
  folder_.write("val.txt", "1 9\n");
  EXPECT_EQ(read("adjacency", folder_.path("")).columns.part,
            (Parts{train, train, train, validation, SplitPart::test, SplitPart::test}));
  const std::string zip = folder_.pack("g.zip", {{"g/test.txt", "0 9\n"}, {"g/train.txt", "0 5 7\n"}});
  EXPECT_EQ(read("adjacency", zip).columns.part, (Parts{train, train, SplitPart::test}));
}

// 7 has rated 31 and 29, and 3 has rated 31.
void expect_three(const test::ReadSource& ratings) {
  EXPECT_EQ(ratings.pairs, (Texts{"7/31", "-7/29", "3/31"}));
  EXPECT_TRUE(ratings.user_ids.numeric() && ratings.item_ids.numeric());
}

TEST_F(Formats, MovieLensWithAnyLineEndsByteOrderMarksAndBlanks) {
  const std::string header = "userId,movieId,rating,timestamp";
  for (const auto& [format, text] :
       Members{{"movielens_csv", header + "\n7,31,4.0,1\n7,29,3.5,2\n3,31,5.0,3\n"},
               {"movielens_csv", "rating,movieId,userId\n4.0,31,7\n3.5,29,7\n5,31,3\n"},
               {"movielens_csv", header + "\r\n7,31,4.0,1\r\n7,29,3.5,2\r\n3,31,5.0,3\r\n"},
               {"movielens_csv", header + "\n7,31,4.0,1\n7,29,3.5,2\n3,31,5.0,3"},
               {"movielens_csv", "\xEF\xBB\xBF" + header + "\n7,31,4.0,1\n7,29,3.5,2\n3,31,5.0,3\n"},
               {"movielens_csv", header + "  \n7,31,4 ,1 \n 7 , 29 ,3.5,2   \n\n3,31,5,3\n\n \n"},
               {"movielens_dat", "7::31::4::1\n7::29::3.5::2\n3::31::5::3\n"},
               {"movielens_dat", "\xEF\xBB\xBF" + std::string("7::31::4\r\n7::29::3.5\r\n3::31::5 \r")},
               {"movielens_100k", "7\t31\t4\t1\n7\t29\t3\t2\n3\t31\t5\t3\n"}}) {
    SCOPED_TRACE(text);
    expect_three(read_text(text, format));
  }
  for (const auto& [format, name] : Members{{"movielens_csv", "ratings.csv"},
                                            {"movielens_dat", "ratings.dat"},
                                            {"movielens_100k", "u.data"}}) {
    const std::string separator = name == "u.data" ? "\t" : format == "movielens_dat" ? "::" : ",";
    std::string text = format == "movielens_csv" ? "userId,movieId,rating\n" : "";
    for (const Texts& line : {Texts{"7", "31", "4"}, {"7", "29", "3"}, {"3", "31", "5"}})
      text += join(line, separator) + "\n";
    folder_.write("ml/" + name, text);
    expect_three(read(format, folder_.path("ml")));
  }
}

TEST_F(Formats, DelimitedColumnsByNameAndByIndex) {
  const std::string table = "when;who;what;stars\n1;\"7\";31;4\n1;7;29;1\n1;3;31;5\n";
  source_.separator = ";";
  use("who", "what", "stars");
  expect_three(read_text(table));
  use("1", "2", "3");
  expect_three(read_text(table));
  source_.separator = " | ";
  source_.header = false;
  expect_three(read_text("1 | 7 | 31 | 4\n1 | 7 | 29 | 1\n1 | 3 | 31 | 5\n"));
  use("0", "1");                                 // without ratings, every line counts
  for (const char* const tab : {"\t", "\\t"}) {  // the latter as in a plain YAML scalar
    source_.separator = tab;
    EXPECT_EQ(read_text("7\t31\n7\t29\n").pairs, (Texts{"7/31", "7/29"}));
  }
}

TEST_F(FormatsInArchives, FilesAreFoundInArchivesAndFolders) {
  const std::string csv = "userId,movieId,rating,timestamp\r\n7,31,4.0,1\r\n7,29,3.5,2\r\n";
  const Texts expected = {"7/31", "-7/29"};
  const auto movielens = [&](const std::string& path) { return read("movielens_csv", path).pairs; };
  EXPECT_EQ(movielens(folder_.pack(
                "ml-20m.zip",
                {{"ml-20m/", ""}, {"ml-20m/movies.csv", "movieId,title\n"}, {"ml-20m/ratings.csv", csv}})),
            expected);
  EXPECT_EQ(movielens(folder_.pack("ratings.csv.gz", {{"x", csv}})), expected);
  EXPECT_EQ(movielens(folder_.path("")), expected);
  EXPECT_EQ(movielens(folder_.path("ml-20m/ratings.csv")), expected) << "from the archive of the folder";
  std::filesystem::remove(folder_.path("ml-20m.zip"));
  expect_in(refusal("movielens_csv", folder_.path("ml-20m/ratings.csv")), {"no such file"});
  const std::string several = "this archive contains several files";
  expect_in(
      refusal("movielens_csv", folder_.pack("two.zip", {{"old/ratings.csv", csv}, {"new/ratings.csv", csv}})),
      {several});
  expect_in(refusal("movielens_csv", folder_.pack("none.zip", {{"ml-20m/README.txt", "x"}})),
            {"contains no ratings.csv; it contains ml-20m/README.txt"});
  expect_in(
      refusal("adjacency", folder_.pack("two.zip", {{"a/train.txt", "1 10\n"}, {"b/train.txt", "2 11\n"}})),
      {several});
  wanted_.min_rating = 0;
  const std::string plays = "b80\tSOAK\t1\nb80\tSOAP\t12\na1\tSOAK\t2\n";
  for (const std::string& path : {folder_.write("train_triplets.txt", plays),
                                  folder_.pack("train_triplets.txt.zip", {{"train_triplets.txt", plays}})})
    EXPECT_EQ(read("msd", path).pairs, (Texts{"b80/SOAK", "b80/SOAP", "a1/SOAK"}));

  source_.header = false;
  EXPECT_EQ(read("delimited", folder_.pack("mac.zip", {{"a.csv", "1,2\n"},
                                                       {"__MACOSX/._a.csv", "x"},
                                                       {"__MACOSX/b.csv", "3,4\n"},
                                                       {"._a.csv", "y"}}))
                .pairs,
            Texts{"1/2"});
  const std::string two = folder_.pack("two.zip", {{"a.csv", "1,2\n"}, {"b.csv", "3,4\n"}});
  expect_in(refusal("delimited", two), {several});
  source_.file = "b.csv";
  EXPECT_EQ(read("delimited", two).pairs, Texts{"3/4"});
  source_.file = "";
  folder_.write("part-2.csv", "5,6\n");
  folder_.write("part-10.csv", "7,8\n");
  EXPECT_EQ(read("delimited", folder_.path("part-*.csv")).pairs, (Texts{"5/6", "7/8"}));
}

TEST_F(Formats, FolderStandsForItsPartsInOrder) {
  use("u", "i");
  for (const auto& [name, text] : Members{{"part-10.csv", "u,i\n5,6\n"},
                                          {"part-9.csv", "i,u\n4,3\n"},
                                          {"part-1.csv", "u,i\n1,2\n"},
                                          {"part-2.csv", ""},
                                          {"_SUCCESS", ""},
                                          {"_metadata", "u,i\n9,9\n"},
                                          {".part-1.csv.crc", "crc"}}) {
    folder_.write("parts/" + name, text);
  }
  const test::ReadSource ratings = read("delimited", folder_.path("parts"));
  EXPECT_EQ(ratings.pairs, (Texts{"1/2", "3/4", "5/6"}));
  EXPECT_EQ(ratings.problems(), Texts{"the file is empty"});
  EXPECT_FALSE(ratings.issues.list()[0].dropped);
  std::filesystem::create_directory(folder_.path("parts/more"));
  expect_in(refusal("delimited", folder_.path("parts")), {"contains the folder more", "/*/*.csv"});
  folder_.write("nothing/_SUCCESS", "");
  expect_in(refusal("delimited", folder_.path("nothing")), {"this folder contains no file"});
  folder_.write("empty/a.csv", "");
  folder_.write("empty/b.csv", "");
  expect_in(refusal("delimited", folder_.path("empty")), {"contains no ratings"});
}

TEST_F(Formats, JsonLines) {
  use("user", "item", "stars");
  source_.time_column = "at";
  wanted_.time = true;
  const test::ReadSource ratings =
      read_text(R"({"user": 7, "item": "a\tb", "stars": 4, "at": "2005-09-06", "x": [1]}
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
)",
                "json_lines");
  EXPECT_EQ(ratings.pairs, (Texts{"7/a\tb", "-u/c", "7/nan", "18446744073709551615/c", "8/d", "9/d"}));
  EXPECT_EQ(ratings.columns.time[0], 1125964800);
  EXPECT_EQ(ratings.problems(),
            (Texts{"the user id is empty", "the item id is empty",
                   "the value of user is neither a string nor an integer",
                   "the value of item is neither a string nor an integer",
                   "the value of stars is neither a number nor a string", "the line is not a JSON object"}));
  for (const char* array : {"[\n{\"user\": 1,\n\"item\": 2}\n]\n", "[{\"user\": 1, \"item\": 2}]"})
    expect_in(refusal_of(array, "json_lines"), {"table.csv: is a JSON array", "jq -c '.[]'"});
}

TEST_F(Formats, JsonArraysAndTrecRunsAreNamed) {
  for (const char* array :
       {"[\n{\"user\": 1,\n\"item\": 2}\n]\n", "[{\"user\": 1, \"item\": 2}]", " [ {\"user\": \"a"})
    expect_in(refusal_of(array),
              {"table.csv: is a JSON array", "jq -c '.[]'", "data.source.format: json_lines"});
  const std::string run = "ann Q0 b 1 9.5 bm25\nann Q0 c 2 9.25 bm25\n";
  for (const char* format : {"delimited", "json_lines", "movielens_csv"})
    expect_in(refusal_of(run, format), {"table.csv:1: is a TREC run (user Q0 item rank score name)", "awk"});
  // An id, and a run whose columns are configured.
  source_.header = false;
  EXPECT_EQ(read_text("[a,2\n").pairs, (Texts{"[a/2"}));
  source_.separator = " ";
  source_.item_column = "2";
  EXPECT_EQ(read_text(run).pairs, (Texts{"ann/b", "ann/c"}));
}

TEST_F(Formats, NumbersThatJsonLacksAreMissingValues) {
  use("user", "item", "stars");
  source_.time_column = "at";
  wanted_.time = true;
  wanted_.keep_untimed = true;
  const test::ReadSource ratings = read_text(
      R"({"user": 1, "x": NaN, "y": [Infinity, -Infinity, {"NaN": "a \" NaN"}], "item": "NaN, \\", "stars": 5, "at": 3}
{"user": 2, "item": 1, "stars": NaN, "at": 1}
{"user": NaN, "item": 2, "stars": 5, "at": 1}
{"user": 3, "item":-Infinity, "stars": 5, "at": 1}
{"user": 4, "item": "b", "stars": 5, "at": NaN}
{"user": 5, "item": "b", "stars": 5, "at": [1]}
)",
      "json_lines");
  EXPECT_EQ(ratings.pairs, (Texts{"1/NaN, \\", "4/b", "5/b"}));
  EXPECT_EQ(
      ratings.problems(),
      (Texts{"the rating is empty", "the user id is empty", "the item id is empty",
             "the time is empty; the line counts as the last of its user and item",
             "the value of at is neither a number nor a string; the line counts as the last of its user "
             "and item"}));
}

TEST_F(Formats, ErrorsOfJsonHaveReasonAndPlace) {
  use("user", "item");
  const std::string good = "{\"user\": 1, \"item\": 2}\n";
  const test::ReadSource ratings = read_text(
      good + good + good + "{\"user\": NaN, \"item\" 2}\n{\"user\": NaN, 'item': 2}\n", "json_lines");
  ASSERT_EQ(ratings.problems(), Texts{"the line is not JSON"});
  const DataIssue& issue = ratings.issues.list()[0];
  EXPECT_EQ(issue.count, 2);
  expect_in(issue.examples[0], {"table.csv:4: '{\"user\": NaN, \"item\" 2}' (column 22: syntax error"});
  expect_in(issue.examples[1], {"table.csv:5: ", "(column 15: syntax error"});
}

TEST_F(Formats, OtherFormatsAreNamedWithTheirConversion) {
  const std::string zeros(100, '\0');
  struct Case {
    std::string bytes;
    Texts message;
  };
  for (const auto& [bytes, message] : std::initializer_list<Case>{
           {"PAR1\x15\x04" + zeros, {"table.csv: is a Parquet file", "pandas.read_parquet("}},
           {"ARROW1" + zeros, {"is an Arrow file", "pandas.read_feather("}},
           {"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1" + zeros, {"is an Excel file", "read_excel("}},
           {"SQLite format 3" + zeros, {"is an SQLite database", "sqlite3 -header -csv"}},
           {"\x93NUMPY\x01" + zeros, {"is a NumPy array", "numpy.savetxt("}},
           {"\n<!DOCTYPE HTML><html>\n", {"is a web page (HTML)", "fetch the file again"}},
           {std::string("\xFF\xFEu\0,\0i\0\n\0", 10), {"UTF-16", "iconv"}}}) {
    expect_in(refusal_of(bytes), message);
  }
  ASSERT_EQ(::mkfifo(folder_.path("pipe").c_str(), 0600), 0);
  expect_in(refusal("delimited", folder_.path("pipe")), {"is a pipe or a device"});
  source_.header = false;
  EXPECT_EQ(read_text("PAR1,2\n").pairs, (Texts{"PAR1/2"})) << "an id";
}

TEST_F(FormatsInArchives, OtherFormatsAreNamedWithTheirConversion) {
  const std::string excel =
      folder_.pack("x.xlsx.zip", {{"[Content_Types].xml", "<xml/>"}, {"xl/worksheets/sheet1.xml", "<xml/>"}});
  const std::string path = folder_.path("x.xlsx");
  std::filesystem::rename(excel, path);
  for (const char* const format : {"delimited", "movielens_csv"})
    expect_in(refusal(format, path), {"x.xlsx: is an Excel file", "read_excel('" + path + "')"});
  expect_in(refusal("delimited", folder_.pack("x.zip", {{"user.npy", "\x93NUMPY" + std::string(100, '\0')}})),
            {"x.zip/user.npy: is a NumPy array"});
}

}  // namespace
}  // namespace vaecf::data
