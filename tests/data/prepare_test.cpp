#include <vaecf/io/dataset_file.hpp>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "data/support.hpp"

namespace vaecf::data {
namespace {

constexpr int user_count = 30;
constexpr int items_per_user = 10;

// User u has items u, u + 1, .. u + 9 (mod 40), and one rating just below the limit.
std::string ratings_csv() {
  std::string text = "userId,movieId,rating,timestamp\n";
  for (int u = 0; u < user_count; ++u) {
    for (int k = 0; k < items_per_user; ++k)
      text += format("{},{},{},0\n", 100 + u, 500 + (u + k) % 40, "4.0");
    text += format("{},{},3.5,0\n", 100 + u, 500 + (u + 20) % 40);
  }
  return text;
}

class Prepare : public test::PrepareTest {
 protected:
  Prepare() {
    source_.format = "movielens_csv";
    source_.path = folder_.write("ratings.csv", ratings_csv());
    options_.validation_users = 4;
    options_.test_users = 6;
  }
};

TEST_F(Prepare, ReportAndAttributesMatchTheWrittenDataset) {
  run();
  std::int64_t interactions = 0;
  for (const auto& [matrix, rows] : std::map<std::string, std::int64_t>{{"train", 20},
                                                                        {"validation/fold_in", 4},
                                                                        {"validation/held_out", 4},
                                                                        {"test/fold_in", 6},
                                                                        {"test/held_out", 6}}) {
    EXPECT_EQ(file().rows(matrix), rows) << matrix;
    interactions += file().entries(matrix);
  }
  EXPECT_EQ(report_.lines_read, 330);
  EXPECT_EQ(stage("raw").events, 330);
  EXPECT_EQ(stage("rating >= 4").events, 300);
  EXPECT_EQ(stage("train").users, 20);
  EXPECT_EQ(stage("train").items, file().items());
  EXPECT_EQ(stage("test: fold-in").events, file().entries("test/fold_in"));
  EXPECT_EQ(stage("test: held-out items").events, file().entries("test/held_out"));
  EXPECT_EQ(stage("test: users without a target").users, 0);
  EXPECT_EQ(stage("validation: fold-in").events + stage("validation: held-out items").events +
                stage("validation: dropped, no train user has the item").events,
            40);
  expect_in(to_table(report_), {"validation: held-out items", "330 lines read"});

  const auto whole = [](std::int64_t value) { return io::Attribute(value); };
  const std::vector<std::pair<std::string, io::Attribute>> expected{
      {"format_version", whole(3)},   {"name", "tiny"},
      {"users", whole(30)},           {"items", file().items()},
      {"interactions", interactions}, {"min_rating", 4.0},
      {"min_user_items", whole(5)},   {"min_item_users", whole(0)},
      {"validation_users", whole(4)}, {"test_users", whole(6)},
      {"held_out_fraction", 0.2},     {"split", "liang2018"},
      {"seed", whole(98765)}};
  for (const auto& [name, value] : expected) EXPECT_EQ(file().attributes().at(name), value) << name;
  const auto source = std::get<std::string>(file().attributes().at("source"));
  EXPECT_TRUE(source.starts_with("ratings.csv (")) << source;
  expect_in(source, {"xxh128 "});
}

TEST_F(Prepare, StringIdsAreStoredAsStrings) {
  std::string text;
  for (int u = 0; u < user_count; ++u) {
    for (int k = 0; k < items_per_user; ++k) text += format("user{}\tSO{}\n", u, (u + k) % 40);
  }
  source_.format = "delimited";
  source_.separator = "\t";
  source_.header = false;
  run(text);
  EXPECT_EQ(items()[0].substr(0, 2), "SO");
  EXPECT_EQ(users("test").text(5).substr(0, 4), "user");
  EXPECT_EQ(std::get<std::string>(file().attributes().at("source_separator")), "\t");
}

TEST_F(Prepare, KeysAreUsedByTheFormatsAndSplitsThatReadThem) {
  const auto expect = [&](const Texts& used, const Texts& unused) {
    for (const std::string& key : used) EXPECT_TRUE(prepare_uses("data." + key, source_, options_)) << key;
    for (const std::string& key : unused) EXPECT_FALSE(prepare_uses("data." + key, source_, options_)) << key;
  };
  options_.split = SplitMethod::liang2018;
  expect({"source.path", "prepare.min_rating", "prepare.seed", "prepare.held_out_fraction",
          "prepare.duplicates"},
         {"source.separator", "source.list_starts_with", "source.test_path", "prepare.held_out",
          "prepare.dates", "prepare.feature_hashes", "source.users.path", "source.time_column",
          "source.users.value_separator", "source.file"});
  source_.path = folder_.path("");
  expect({"source.file"}, {});
  source_.path = folder_.path("ratings.csv");
  source_.items.title_column = "title";
  expect({"source.items.path"}, {"source.items.value_separator"});
  options_.item_features = {"genres"};
  expect({"source.items.value_separator"}, {});
  source_.items.title_column = "";
  options_.item_features = {};
  options_.split = SplitMethod::given;
  expect({"source.test_path", "prepare.seed"}, {"prepare.min_user_items", "prepare.repeat_filters"});
  source_.format = "delimited";
  expect({}, {"prepare.min_rating"});
  source_.rating_column = "stars";
  expect({"prepare.min_rating", "source.time_column"}, {});
  options_.split = SplitMethod::ratio;
  options_.held_out = HeldOut::last;
  expect({"source.time_column", "prepare.held_out"}, {});
  options_.split = SplitMethod::stable;
  expect({"prepare.test_fraction", "prepare.held_out_fraction"}, {});
  source_.format = "json_lines";
  expect({"source.user_column"}, {"source.header"});
}

std::map<std::int64_t, std::string> titles_of(const io::DatasetFile& file) {
  const auto ids = file.read_ids("items/id").numbers;
  const auto titles = file.read_ids("items/title").strings;
  std::map<std::int64_t, std::string> by_id;
  for (std::size_t i = 0; i < titles.size(); ++i) by_id[ids[i]] = titles[i];
  return by_id;
}

using PrepareFromArchives = test::WithArchives<Prepare>;

TEST_F(PrepareFromArchives, TitlesAreReadNextToTheRatings) {
  run();
  EXPECT_FALSE(file().has_ids("items/title"));
  const std::string movies =
      "movieId,title,genres\r\n501,\"American President, The (1995)\",Comedy\r\n502,Caf\xE9 (1990),Drama\r\n"
      "9999,Nobody rated this,Drama\r\n503,Am\xC3\xA9lie,Comedy\r\n";
  folder_.write("movies.csv", movies);
  const auto remake = [&] {
    EXPECT_FALSE(run().up_to_date);
    auto titles = titles_of(file());
    EXPECT_EQ(titles[501], "American President, The (1995)");
    EXPECT_EQ(titles[502], "Caf\xC3\xA9 (1990)");
    EXPECT_EQ(titles[503], "Am\xC3\xA9lie");
    EXPECT_EQ(titles[504], "");
    EXPECT_TRUE(run().up_to_date);
  };
  remake();
  source_.path = folder_.pack("ml.zip", {{"ml/ratings.csv", ratings_csv()}, {"ml/movies.csv", movies}});
  std::filesystem::remove(folder_.path("movies.csv"));
  remake();
}

TEST_F(Prepare, NetflixTitlesMayContainCommas) {
  std::string text;
  for (int movie = 1; movie <= 12; ++movie) {
    text += format("{}:\n", movie);
    for (int user = 1; user <= user_count; ++user) text += format("{},{},2005-09-06\n", user, 5);
  }
  folder_.write("nf/training_set/mv_1.txt", text);
  folder_.write("nf/movie_titles.txt", "1,2003,Dinosaur Planet\n2,NULL,What, no year?\n");
  source_.format = "netflix";
  source_.path = folder_.path("nf");
  run();
  auto titles = titles_of(file());
  EXPECT_EQ(titles[1], "Dinosaur Planet");
  EXPECT_EQ(titles[2], "What, no year?");
}

TEST_F(Prepare, LastFmTitlesAreTheNamesOfArtists) {
  std::string text = "userID\tartistID\tweight\n";
  for (int user = 1; user <= user_count; ++user)
    for (int artist = 1; artist <= 12; ++artist) text += format("{}\t{}\t{}\n", user, artist, 4 + user);
  folder_.write("fm/artists.dat", "id\tname\turl\n1\t:wumpscut:\thttp://a\n2\t\"AC/DC\thttp://b\n");
  source_.format = "lastfm_2k";
  source_.path = folder_.write("fm/user_artists.dat", text);
  run();
  auto titles = titles_of(file());
  EXPECT_EQ(titles[1], ":wumpscut:");
  EXPECT_EQ(titles[2], "\"AC/DC");
  EXPECT_EQ(titles[3], "");
}

TEST_F(Prepare, UpToDateDatasetIsNotRemade) {
  const PrepareReport first = run();
  EXPECT_FALSE(first.up_to_date);
  // A file that is written again has another inode, whatever the resolution of the clock.
  struct stat made {};
  struct stat found {};
  ASSERT_EQ(::stat(output_.c_str(), &made), 0);
  EXPECT_TRUE(run().up_to_date);
  EXPECT_EQ(to_table(report_), to_table(first));
  ASSERT_EQ(::stat(output_.c_str(), &found), 0);
  EXPECT_EQ(found.st_ino, made.st_ino);
  EXPECT_TRUE(prepare(source_, options_, "renamed", output_, mode_, log_, progress_).up_to_date);
  EXPECT_EQ(std::get<std::string>(file().attributes().at("name")), "tiny");
  mode_.force = true;
  EXPECT_FALSE(run().up_to_date);
  mode_.force = false;
  const auto expect_remade = [&] {
    EXPECT_FALSE(run().up_to_date);
    EXPECT_TRUE(run().up_to_date);
  };
  options_.seed = 7;
  expect_remade();
  folder_.write("ratings.csv", ratings_csv() + "100,501,3.0,0\n");
  expect_remade();
  options_.split = SplitMethod::given;
  source_.test_path = folder_.write("held.csv", "userId,movieId,rating,timestamp\n100,505,5,0\n");
  expect_remade();
  std::swap(source_.test_path, source_.validation_path);
  expect_remade();
}

TEST_F(PrepareFromArchives, AnotherFileOfTheSameArchiveIsAnotherSource) {
  source_.format = "delimited";
  source_.user_column = "userId";
  source_.item_column = "movieId";
  folder_.pack("both.zip",
               {{"a.csv", ratings_csv()}, {"b.csv", ratings_csv() + "100,501,5,0\n101,500,5,0\n"}});
  source_.path = folder_.path("both/a.csv");
  EXPECT_FALSE(run().up_to_date);
  EXPECT_TRUE(run().up_to_date);
  source_.path = folder_.path("both/b.csv");
  EXPECT_FALSE(run().up_to_date);
}

TEST_F(Prepare, ReplacesOtherFilesOnlyWithTheReplaceOption) {
  run();
  const std::string whole = folder_.read("tiny.h5");
  std::string other_column = whole;
  const std::int32_t row[] = {0, 1, 2};
  const auto at = whole.find({reinterpret_cast<const char*>(row), sizeof row});
  ASSERT_NE(at, std::string::npos);
  other_column[at + 3] = '\x7f';
  for (const std::string& bytes :
       {std::string("no dataset"), std::string(), whole.substr(0, whole.size() - 1), other_column}) {
    folder_.write("tiny.h5", bytes);
    for (const bool force : {false, true}) {
      mode_.force = force;
      expect_in(refusal(), {"tiny.h5: exists and is not an intact dataset", "--replace"});
      EXPECT_EQ(folder_.read("tiny.h5"), bytes);
    }
    mode_ = {.replace = true};
    EXPECT_FALSE(run().up_to_date);
    EXPECT_TRUE(run().up_to_date);
    EXPECT_EQ(folder_.read("tiny.h5"), whole);
    mode_ = {};
  }
  source_.path = folder_.write("ratings.csv", "no ratings\n");
  folder_.write("tiny.h5", "no dataset");
  expect_in(refusal(), {"--replace"});  // before the source is read
}

TEST_F(Prepare, ReportListsDroppedLinesWithReasons) {
  source_.path = folder_.write("odd.csv", ratings_csv() + "100,501,,0\n100,500,4.0,0\n,501,5,0\n");
  const std::string table = to_table(run());
  expect_in(table, {"333 lines read, 331 events, 1 repeated",
                    "1 dropped: the rating is empty, first at " + source_.path + ":332: '100,501,,0'",
                    "1 dropped: the user id is empty"});
}

}  // namespace
}  // namespace vaecf::data
