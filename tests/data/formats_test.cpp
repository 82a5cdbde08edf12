// All formats of docs/DATA.md except those of parse_test.cpp, in small files with the irregularities of the
// published ones.
#include <vaecf/base/error.hpp>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "data/ratings_support.hpp"
#include "data/source/source_formats.hpp"
#include "data/support.hpp"
#include "support/bson.hpp"
#include "support/packing.hpp"

namespace vaecf::data {
namespace {

using test::Pairs;
using vaecf::testing::packed;

using Formats = test::PairsTest;

const Pairs netflix_pairs = {"7/1", "-9/1", "9/2", "7/10"};

TEST_F(Formats, NetflixFolderInNumericOrder) {
  folder("nf/training_set");
  folder_.write("nf/training_set/mv_0000010.txt", "10:\n7,5,2005-01-01\n");
  folder_.write("nf/training_set/mv_0000002.txt", "2:\n9,4,2004-12-31\n");
  folder_.write("nf/training_set/mv_0000001.txt", "1:\n7,4,2005-09-06\n9,3,2005-05-13\n");
  folder_.write("nf/probe.txt", "1:\n7\n");
  EXPECT_EQ(pairs(read("netflix", folder_.path("nf"))), netflix_pairs);
  EXPECT_EQ(pairs(read("netflix", folder_.path("nf/training_set"))), netflix_pairs);
  EXPECT_EQ(pairs(read("netflix", folder_.path("nf/training_set/mv_*.txt"))), netflix_pairs);
}

TEST_F(Formats, NetflixTarInATarInAnyOrder) {
  if (!vaecf::testing::has_libarchive) GTEST_SKIP() << vaecf::testing::without_libarchive;
  const std::string inner = packed({{"training_set/", ""},
                                    {"training_set/mv_0000010.txt", "10:\n7,5,2005-01-01\n"},
                                    {"training_set/mv_0000001.txt", "1:\n7,4,2005-09-06\n9,3,2005-05-13\n"},
                                    {"training_set/mv_0000002.txt", "2:\n9,4,2004-12-31\n"}},
                                   "tar", "none");
  const std::string tar = packed({{"download/", ""},
                                  {"download/probe.txt", "1:\n7\n"},
                                  {"download/training_set.tar", inner},
                                  {"download/README", "no data"}},
                                 "tar", "gzip");
  const test::ReadSource ratings = read("netflix", folder_.write("nf_prize_dataset.tar.gz", tar));
  EXPECT_EQ(pairs(ratings), netflix_pairs);
  expect_in(ratings.location(1), {"mv_0000001.txt:3"});
  expect_in(ratings.location(2), {"mv_0000002.txt:2"});
  expect_in(ratings.location(3), {"mv_0000010.txt:2"});
}

TEST_F(Formats, NetflixCombinedFilesOfKaggle) {
  if (!vaecf::testing::has_libarchive) GTEST_SKIP() << vaecf::testing::without_libarchive;
  const std::string first = "1:\n7,4,2005-09-06\n9,3,2005-05-13\n2:\n9,4,2004-12-31\n";
  const std::string second = "10:\n7,5,2005-01-01\n";
  folder_.write("combined_data_1.txt", first);
  folder_.write("combined_data_2.txt", second);
  folder_.write("movie_titles.csv", "1,2003,Dinosaur Planet\n");
  EXPECT_EQ(pairs(read("netflix", folder_.path("combined_data_*.txt"))), netflix_pairs);
  EXPECT_EQ(pairs(read("netflix", folder_.path("combined_data_{2,1}.txt"))), netflix_pairs);
  EXPECT_EQ(pairs(read("netflix", folder_.path(""))), netflix_pairs);
  const std::string zip =
      packed({{"combined_data_2.txt", second}, {"combined_data_1.txt", first}}, "zip", "none");
  EXPECT_EQ(pairs(read("netflix", folder_.write("netflix-prize-data.zip", zip))), netflix_pairs);
}

TEST_F(Formats, NetflixFilesNamedByMovieOnly) {
  folder("small");
  folder_.write("small/010.txt", "10:\n7,5,2005-01-01\n");
  folder_.write("small/001.txt", "001:\n7,4,2005-09-06\n9,3,2005-05-13\n");
  folder_.write("small/2.txt", "2:\n9,4,2004-12-31\n");
  folder_.write("small/probe.txt", "1:\n7\n");
  EXPECT_EQ(pairs(read("netflix", folder_.path("small"))), netflix_pairs);
}

TEST_F(Formats, NetflixWithoutMovieLines) {
  folder("flat");
  folder_.write("flat/mv_1.txt", "1,7,4,2005-09-06\n1,9,3,2005-05-13\n");
  folder_.write("flat/mv_2.txt", "2,9,4,2004-12-31\n");
  folder_.write("flat/mv_10.txt", "10,7,5,2005-01-01\n");
  EXPECT_EQ(pairs(read("netflix", folder_.path("flat"))), netflix_pairs);
}

TEST_F(Formats, NetflixWithoutMovieLinesInAnyOrder) {
  const test::ReadSource ratings =
      read("netflix", folder_.write("mv_all.txt",
                                    "movie,user,rating,date\n10,7,5,2005-01-01\n0001,7,4,2005-09-06\n"
                                    "2,9,4,2004-12-31\n1,9,3,2005-05-13\n1,9,3,2005-05-13,x\n"));
  EXPECT_EQ(pairs(ratings), netflix_pairs);
  ASSERT_EQ(ratings.issues.list().size(), 2U);
  EXPECT_EQ(ratings.issues.list()[0].what, "the movie is not an integer");
  EXPECT_EQ(ratings.issues.list()[1].what, "too many columns");
}

TEST_F(Formats, NetflixLinesBeforeTheFirstMovieAreDropped) {
  const test::ReadSource ratings = read(
      "netflix", folder_.write("combined_data_1.txt", "7,4,2005-09-06\n1:\n7,4,2005-09-06\n9,3,x\n7,4\n"));
  EXPECT_EQ(pairs(ratings), (Pairs{"7/1", "-9/1"}));
  ASSERT_EQ(ratings.issues.list().size(), 2u);
  EXPECT_EQ(ratings.issues.list()[0].what, "no line 'N:' with the movie precedes it");
  EXPECT_EQ(ratings.issues.list()[1].what, "too few columns");
}

TEST_F(Formats, LastFmUsesArtistNamesForMissingIdsAndKeepsQuotes) {
  wanted_.min_rating = 0;
  const test::ReadSource ratings =
      read("lastfm_360k", folder_.write("usersha1-artmbid-artname-plays.tsv",
                                        "u1\tm-1\tbetty \"blowtorch\t2137\n"
                                        "u1\t\t\"weird al\" yankovic\t12\n"
                                        "u2\tm-1\tbetty blowtorch\t0\nu3\tm-1\tbetty\t1\n"
                                        "u2\t\t\t3\n"
                                        "u2\tm-2\ta\tname\twith tabs\t3\n"
                                        "u2\tm-3\tbroken\tx\n"
                                        "u2\tm-4\tcut\n"));
  EXPECT_EQ(pairs(ratings), (Pairs{"u1/m-1", "u1/name:\"weird al\" yankovic", "u2/m-1", "u3/m-1"}));
  std::vector<std::string> seen;
  for (const DataIssue& issue : ratings.issues.list()) seen.push_back(issue.what);
  EXPECT_EQ(seen, (std::vector<std::string>{"the item id is empty", "too many columns",
                                            "the rating is not a number", "too few columns"}));
}

TEST_F(Formats, MsdTriplets) {
  if (!vaecf::testing::has_libarchive) GTEST_SKIP() << vaecf::testing::without_libarchive;
  wanted_.min_rating = 0;
  const std::string text =
      "b80344d0\tSOAKIMP12A8C130995\t1\nb80344d0\tSOAPDEY12A81C210A9\t12\na1\tSOAKIMP12A8C130995\t2\n";
  const Pairs expected = {"b80344d0/SOAKIMP12A8C130995", "b80344d0/SOAPDEY12A81C210A9",
                          "a1/SOAKIMP12A8C130995"};
  EXPECT_EQ(pairs(read("msd", folder_.write("train_triplets.txt", text))), expected);
  EXPECT_EQ(pairs(read("msd", folder_.write("train_triplets.txt.zip",
                                            packed({{"train_triplets.txt", text}}, "zip", "none")))),
            expected);
}

TEST_F(Formats, PinterestBoards) {
  if (VAECF_HAS_LIBBSON == 0) GTEST_SKIP() << "built without libbson";
  if (!vaecf::testing::has_libarchive) GTEST_SKIP() << vaecf::testing::without_libarchive;
  using namespace vaecf::testing;
  const std::string bson = bson_board("b1", {"p1", "p2"}) +
                           bson_document(bson_element('\x04', "pins", bson_strings({"p9"}))) +
                           bson_board("b2", {"p1", "p1"});
  const test::ReadSource ratings = read("pinterest", folder_.write("subset_iccv_board_pins.bson", bson));
  EXPECT_EQ(pairs(ratings), (Pairs{"b1/p1", "b1/p2", "b2/p1", "b2/p1"}));
  ASSERT_EQ(ratings.issues.list().size(), 1u);
  EXPECT_EQ(ratings.issues.list()[0].what, "the board has no board_id");
  expect_in(ratings.location(3), {"bson:3"});
  const auto zip = packed(
      {{"iccv/subset_iccv_pin_im.bson", "no"}, {"iccv/subset_iccv_board_pins.bson", bson}}, "zip", "none");
  EXPECT_EQ(read("pinterest", folder_.write("pinterest_iccv.zip", zip)).columns.positive.size(), 4u);
}

TEST_F(Formats, AdjacencyLists) {
  const auto path = folder_.write("train.txt", "0 5 7 9\n1\n2 5  5 \r\n3 11");
  EXPECT_EQ(pairs(read("adjacency", path)), (Pairs{"0/5", "0/7", "0/9", "2/5", "2/5", "3/11"}));
  EXPECT_EQ(pairs(read("adjacency", folder_.path(""))).size(), 6u);
  source_.list_starts_with = ListStart::count;
  const test::ReadSource counted =
      read("adjacency", folder_.write("users.dat", "2 5 7\n0\n1 5\n3 1 2\n1 9\n"));
  EXPECT_EQ(pairs(counted), (Pairs{"0/5", "0/7", "2/5", "4/9"}));
  EXPECT_EQ(counted.issues.list().at(0).what,
            "the count at its start differs from the number of items after it");
}

TEST_F(Formats, AdjacencyInSeveralFiles) {
  if (!vaecf::testing::has_libarchive) GTEST_SKIP() << vaecf::testing::without_libarchive;
  folder_.write("part1.txt", "1 10 11\n");
  folder_.write("part2.txt", "2 10\n");
  EXPECT_EQ(pairs(read("adjacency", folder_.path("part*.txt"))), (Pairs{"1/10", "1/11", "2/10"}));
  source_.list_starts_with = ListStart::count;
  folder_.write("part1.txt", "2 10 11\n");
  folder_.write("part2.txt", "1 10\n");
  expect_in(refusal("adjacency", folder_.path("part*.txt")), {"from 0 in each file"});
  source_.list_starts_with = ListStart::user;
  const std::string two =
      folder_.write("two.zip", packed({{"a/train.txt", "1 10\n"}, {"b/train.txt", "2 11\n"}}, "zip", "none"));
  expect_in(refusal("adjacency", two), {"this archive contains several files"});
}

TEST_F(Formats, AdjacencyOfAGivenSplit) {
  if (!vaecf::testing::has_libarchive) GTEST_SKIP() << vaecf::testing::without_libarchive;
  wanted_.part = true;
  folder_.write("train.txt", "0 5 7\n1 5\n");
  folder_.write("test.txt", "0 9\n1 7\n");
  using Parts = std::vector<SplitPart>;
  for (const std::string& path : {folder_.path(""), folder_.path("train.txt")}) {
    const test::ReadSource ratings = read("adjacency", path);
    EXPECT_EQ(pairs(ratings), (Pairs{"0/5", "0/7", "1/5", "0/9", "1/7"}));
    EXPECT_EQ(ratings.columns.part, (Parts{SplitPart::train, SplitPart::train, SplitPart::train,
                                           SplitPart::test, SplitPart::test}));
  }
  folder_.write("val.txt", "1 9\n");
  EXPECT_EQ(read("adjacency", folder_.path("")).columns.part,
            (Parts{SplitPart::train, SplitPart::train, SplitPart::train, SplitPart::validation,
                   SplitPart::test, SplitPart::test}));
  const auto zip = packed({{"g/test.txt", "0 9\n"}, {"g/train.txt", "0 5 7\n"}}, "zip", "none");
  EXPECT_EQ(read("adjacency", folder_.write("g.zip", zip)).columns.part,
            (Parts{SplitPart::train, SplitPart::train, SplitPart::test}));
}

TEST_F(Formats, ProSgKeepsItsIndices) {
  wanted_.part = true;
  folder("pro_sg");
  const auto write = [&](const std::string& name, const std::string& text) {
    folder_.write("pro_sg/" + name, text);
  };
  write("unique_sid.txt", "151\n223\n253\n260\n");
  write("train.csv", "uid,sid\n1,0\n0,1\n1,2\n0,0\n");
  write("validation_tr.csv", "uid,sid\n2,0\n4,1\n");
  write("validation_te.csv", "uid,sid\n2,3\n");
  write("test_tr.csv", "uid,sid\r\n5,0\r\n");
  expect_in(refusal("pro_sg", folder_.path("pro_sg")), {"the pro_sg folder contains no test_te.csv"});
  write("test_te.csv", "uid,sid\n5,1\n5,2\n");
  const test::ReadSource ratings = read("pro_sg", folder_.path("pro_sg"));
  EXPECT_TRUE(ratings.numbered_by_source);
  EXPECT_EQ(ratings.item_ids.numbers, (std::vector<std::int64_t>{151, 223, 253, 260}));
  EXPECT_EQ(ratings.user_ids.size(), 6);
  EXPECT_EQ(ratings.events.size(), 10);
  write("unique_sid.txt", "151\n223\n");
  expect_in(refusal("pro_sg", folder_.path("pro_sg")), {"unique_sid.txt has 2 lines"});
  write("unique_sid.txt", "151\n\n223\n");
  expect_in(refusal("pro_sg", folder_.path("pro_sg")), {"unique_sid.txt:3"});
  wanted_.part = false;
  expect_in(refusal("pro_sg", folder_.path("pro_sg")), {"data.prepare.split: given"});
}

TEST_F(Formats, MovieLensFromItsArchives) {
  if (!vaecf::testing::has_libarchive) GTEST_SKIP() << vaecf::testing::without_libarchive;
  const std::string csv = "userId,movieId,rating,timestamp\r\n7,31,4.0,1\r\n7,29,3.5,2\r\n";
  const auto zip =
      packed({{"ml-20m/", ""}, {"ml-20m/movies.csv", "movieId,title\n"}, {"ml-20m/ratings.csv", csv}}, "zip",
             "none");
  EXPECT_EQ(pairs(read("movielens_csv", folder_.write("ml-20m.zip", zip))), (Pairs{"7/31", "-7/29"}));
  const auto gz = packed({{"x", csv}}, "raw", "gzip");
  EXPECT_EQ(pairs(read("movielens_csv", folder_.write("ratings.csv.gz", gz))), (Pairs{"7/31", "-7/29"}));
  EXPECT_EQ(pairs(read("movielens_csv", folder_.path(""))), (Pairs{"7/31", "-7/29"}));
  // The folder does not exist, but its archive does.
  EXPECT_EQ(pairs(read("movielens_csv", folder_.path("ml-20m/ratings.csv"))), (Pairs{"7/31", "-7/29"}));
  const auto two = packed({{"old/ratings.csv", csv}, {"new/ratings.csv", csv}}, "zip", "none");
  expect_in(refusal("movielens_csv", folder_.write("two.zip", two)), {"this archive contains several files"});
  std::filesystem::remove(folder_.path("two.zip"));
  std::filesystem::remove(folder_.path("ml-20m.zip"));
  expect_in(refusal("movielens_csv", folder_.path("ml-20m/ratings.csv")), {"no such file"});
  const auto none = packed({{"ml-20m/README.txt", "x"}}, "zip", "none");
  expect_in(refusal("movielens_csv", folder_.write("none.zip", none)),
            {"contains no ratings.csv; it contains ml-20m/README.txt"});
}

TEST_F(Formats, DelimitedFromArchivesAndFolders) {
  if (!vaecf::testing::has_libarchive) GTEST_SKIP() << vaecf::testing::without_libarchive;
  source_.header = false;
  const auto one = packed({{"a.csv", "1,2\n"}}, "zip", "none");
  EXPECT_EQ(pairs(read("delimited", folder_.write("one.zip", one))), (Pairs{"1/2"}));
  const auto two = folder_.write("two.zip", packed({{"a.csv", "1,2\n"}, {"b.csv", "3,4\n"}}, "zip", "none"));
  expect_in(refusal("delimited", two), {"this archive contains several files"});
  source_.file = "b.csv";
  EXPECT_EQ(pairs(read("delimited", two)), (Pairs{"3/4"}));
  source_.file = "";
  folder_.write("part-2.csv", "5,6\n");
  folder_.write("part-10.csv", "7,8\n");
  EXPECT_EQ(pairs(read("delimited", folder_.path("part-*.csv"))), (Pairs{"5/6", "7/8"}));
}

TEST_F(Formats, RejectsPipesWithoutBlocking) {
  ASSERT_EQ(::mkfifo(folder_.path("pipe").c_str(), 0600), 0);
  expect_in(refusal("delimited", folder_.path("pipe")), {"is a pipe or a device"});
}

TEST_F(Formats, TimesAreNumbersOrDates) {
  wanted_.time = true;
  source_.header = false;
  source_.time_column = "2";
  const test::ReadSource numbers =
      read("delimited", folder_.write("t.csv", "1,1,978300760\n1,2,978300760.5\n1,3,2005-09-06\n1,4,soon\n"));
  EXPECT_EQ(numbers.columns.time, (std::vector<double>{978300760, 978300760.5}));
  ASSERT_EQ(numbers.issues.list().size(), 2U);
  EXPECT_EQ(numbers.issues.list()[0].what, "the time is a date, but a number on earlier lines");

  const test::ReadSource dates =
      read("delimited", folder_.write("t.csv",
                                      "1,3,2005-09-06\n1,4,2005-09-06 13:59:01\n1,5,20050907\n1,6,\n"
                                      "1,7,12/31/2004\n1,8,2005-09-07\n"));
  EXPECT_EQ(dates.columns.time, (std::vector<double>{1125964800, 1126015141, 1126051200}));
  ASSERT_EQ(dates.issues.list().size(), 2U);
  EXPECT_EQ(dates.issues.list()[0].what, "the time is a number, but a date on earlier lines");
  EXPECT_EQ(dates.issues.list()[1].count, 2) << "dates with the day first are rejected";
}

// Expected values from `date -u -d ... +%s`.
TEST(Dates, YearFirst) {
  const auto seconds = [](std::string_view text) {
    double value = -1;
    return parse_date(text, value) ? value : -1.0;
  };
  for (const char* same : {"2005-09-06T13:59:01", "2005/09/06 13:59:01", "20050906T135901",
                           "2005-09-06t13:59:01z", "2005-09-06 13:59:01+00:00", "2005-09-06T15:59:01+02:00",
                           "2005-09-06 08:29:01 -0530", "2005-09-06T14:59:01+01"}) {
    EXPECT_EQ(seconds(same), 1126015141.0) << same;
  }
  EXPECT_NEAR(seconds("2005-09-06T13:59:01.25Z"), 1126015141.25, 1e-6);
  EXPECT_EQ(seconds("2005-09-06 13:59"), 1126015140.0);
  EXPECT_EQ(seconds("2004-02-29"), 1078012800.0);
  EXPECT_EQ(seconds("1969-12-31T23:59:00"), -60.0);
  for (const char* none :
       {"", "2005", "2005-09", "2005-13-01", "2005-02-29", "2005-09-06 ", "2005-09-06T", "2005-09-06T13",
        "2005-09-06 25:00", "2005-09-06 13:60", "2005-09-06 13:59:", "2005-09-06 13:59:01.", "06.09.2005",
        "2005-09-06 13:59:01+", "2005-09-06 13:59:01+02:", "2005-09-06 13:59:01 UTC", "-005-09-06",
        "2005--9-06", "2005-09-06x"}) {
    EXPECT_EQ(seconds(none), -1.0) << none;
  }
}

}  // namespace
}  // namespace vaecf::data
