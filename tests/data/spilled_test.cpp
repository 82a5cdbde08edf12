// Events that do not fit into memory make the same dataset as those that do.
#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "data/event_buckets.hpp"
#include "data/parse.hpp"
#include "support.hpp"
#include "support/bson.hpp"

namespace vaecf::data {
namespace {

constexpr double bytes_of_a_gib = 1073741824.0;

struct RandomEvent {
  int user;
  int item;
  std::string rating;
  int time;
};

// Few items and many events, so that pairs come again, with other ratings.
std::vector<RandomEvent> random_events(int count, int users, int items) {
  std::mt19937 draw(5);
  std::vector<RandomEvent> events;
  for (int e = 0; e < count; ++e) {
    const auto user = static_cast<int>(draw() % static_cast<unsigned>(users));
    // Some users have few events, and some items few users.
    if (user % 3 == 0 && draw() % 8 != 0) continue;
    auto item = static_cast<int>(draw() % static_cast<unsigned>(items));
    if (item % 4 == 0 && draw() % 6 != 0) item = 1;
    events.push_back(
        {user, item, format("{}.{}", draw() % 6, draw() % 2 * 5), static_cast<int>(draw() % 50)});
  }
  return events;
}

class Spilled : public ::testing::Test {
 protected:
  Spilled() {
    options_.min_rating = 2.0;
    options_.min_user_items = 3;
    options_.validation_users = 7;
    options_.test_users = 9;
  }

  PrepareReport run(const std::string& output, double bytes) {
    PrepareOptions options = options_;
    options.memory_gib = bytes / bytes_of_a_gib;
    return prepare(source_, options, "spilled", folder_.path(output), mode_, log_, progress_);
  }

  // With room for all events, and for less and less of them: one bucket up to many.
  void expect_the_same() {
    const PrepareReport expected = run("memory.h5", 0);
    for (const double bytes : {40000.0, 3000.0, 1.0}) {
      SCOPED_TRACE(::testing::Message() << bytes << " bytes");
      const PrepareReport found = run("disk.h5", bytes);
      EXPECT_EQ(to_table(found), to_table(expected));
      EXPECT_EQ(found.duplicates_dropped, expected.duplicates_dropped);
      ASSERT_EQ(found.findings.size(), expected.findings.size());
      for (std::size_t f = 0; f < expected.findings.size(); ++f) {
        EXPECT_EQ(found.findings[f].what, expected.findings[f].what);
        EXPECT_EQ(found.findings[f].count, expected.findings[f].count);
        EXPECT_EQ(found.findings[f].examples, expected.findings[f].examples);
      }
      expect_same_file();
      std::filesystem::remove(folder_.path("disk.h5"));
    }
  }

  std::string bytes_of(const std::string& name) {
    std::ifstream file(folder_.path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  void expect_same_file() {
    EXPECT_TRUE(bytes_of("memory.h5") == bytes_of("disk.h5"));
    const io::DatasetFile expected(folder_.path("memory.h5"));
    const io::DatasetFile found(folder_.path("disk.h5"));
    EXPECT_EQ(found.fingerprint(), expected.fingerprint());
    EXPECT_EQ(found.attributes(), expected.attributes());
    for (const char* const matrix :
         {"train", "validation/fold_in", "validation/held_out", "test/fold_in", "test/held_out",
          "train/features", "validation/features", "test/features"}) {
      SCOPED_TRACE(matrix);
      ASSERT_EQ(found.rows(matrix), expected.rows(matrix));
      const Csr a = expected.read_rows(matrix, {0, expected.rows(matrix)});
      const Csr b = found.read_rows(matrix, {0, expected.rows(matrix)});
      EXPECT_EQ(a.offsets, b.offsets);
      EXPECT_EQ(a.columns, b.columns);
    }
    for (const char* const ids :
         {"items/id", "items/title", "train/user_id", "validation/user_id", "test/user_id"}) {
      SCOPED_TRACE(ids);
      ASSERT_EQ(found.has_ids(ids), expected.has_ids(ids));
      if (!expected.has_ids(ids)) continue;
      EXPECT_EQ(found.read_ids(ids).numbers, expected.read_ids(ids).numbers);
      EXPECT_EQ(found.read_ids(ids).strings, expected.read_ids(ids).strings);
    }
    EXPECT_GT(expected.entries("train"), 50);
    EXPECT_GT(expected.entries("test/held_out"), 3);
  }

  void use_csv(int count = 3000) {
    std::string text = "userId,movieId,rating,timestamp\n";
    for (const RandomEvent& e : random_events(count, 90, 60)) {
      text += format("{},{},{},{}\n", 1000 - e.user, 7 * e.item, e.rating, e.time);
    }
    text.insert(text.find('\n', text.size() / 2) + 1, "nonsense\n,3,4,5\n");
    source_.format = "movielens_csv";
    source_.path = folder_.write("ratings.csv", text);
    folder_.write("movies.csv", "movieId,title,genres\n7,\"Seven, The\",x\n14,Fourteen,y\n");
  }
  std::string folder(const std::string& name) {
    std::filesystem::create_directories(folder_.path(name));
    return folder_.path(name);
  }

  test::TempFolder folder_;
  SourceOptions source_;
  PrepareOptions options_;
  PrepareMode mode_;
  Log log_;
  Progress progress_;
};

TEST_F(Spilled, EverySplit) {
  use_csv();
  for (const std::string split : {"liang2018", "random", "leave_one_out", "ratio"}) {
    for (const std::string pick : {"random", "last"}) {
      if (pick == "last" && split != "leave_one_out" && split != "ratio") continue;
      SCOPED_TRACE(split + ", " + pick);
      options_.split = split;
      options_.pick = pick;
      expect_the_same();
    }
  }
}

TEST_F(Spilled, ItemsWithFewUsersGo) {
  use_csv();
  options_.min_item_users = 12;
  for (const std::string split : {"liang2018", "ratio"}) {
    options_.split = split;
    expect_the_same();
  }
}

TEST_F(Spilled, ManyHeldOutAndItemsThatNobodyTrainsOn) {
  use_csv(700);
  options_.validation_users = 20;
  options_.test_users = 30;
  options_.min_user_items = 1;
  for (const std::string split : {"liang2018", "random"}) {
    options_.split = split;
    expect_the_same();
  }
  options_.split = "leave_one_out";
  options_.validation_users = 0;
  expect_the_same();
}

TEST_F(Spilled, TextIdsThatCameAsNumbersFirst) {
  std::string text;
  for (const RandomEvent& e : random_events(2000, 50, 40)) {
    text += format("{}\ti{}\n", e.user == 17 ? "x17" : std::to_string(e.user), e.item);
  }
  source_.format = "delimited";
  source_.separator = "\t";
  source_.header = false;
  source_.path = folder_.write("text.tsv", text);
  expect_the_same();
}

TEST_F(Spilled, MoviesInOrderOfTheirNumbers) {
  const std::string path = folder("netflix");
  const std::vector<RandomEvent> events = random_events(2500, 40, 24);
  std::array<std::string, 3> files;
  for (int movie = 0; movie < 24; ++movie) {
    std::string& file = files[static_cast<std::size_t>(movie % 3)];
    file += format("{}:\n", (movie * 7) % 24 + 1);
    for (const RandomEvent& e : events) {
      if (e.item == movie) file += format("{},{},2005-01-{:02}\n", e.user, e.rating.front(), 1 + e.time % 28);
    }
  }
  folder_.write("netflix/combined_data_1.txt", files[0]);
  folder_.write("netflix/combined_data_2.txt", files[1] + files[0].substr(0, files[0].find(':', 10)));
  folder_.write("netflix/combined_data_10.txt", files[2]);
  source_.format = "netflix";
  source_.path = path;
  options_.min_user_items = 2;
  options_.min_rating = 1.0;
  options_.validation_users = options_.test_users = 4;
  expect_the_same();
  options_.split = "leave_one_out";
  options_.pick = "last";
  expect_the_same();
}

TEST_F(Spilled, ListsAndASplitOfTheirOwn) {
  std::mt19937 draw(3);
  const auto lists = [&](int users, int most) {
    std::string text;
    for (int u = 0; u < users; ++u) {
      text += std::to_string(u);
      for (int n = static_cast<int>(draw() % 12); n >= 0; --n) {
        text += format(" {}", draw() % static_cast<unsigned>(most));
      }
      text += "\n";
    }
    return text;
  };
  source_.format = "adjacency";
  source_.path = folder("lists");
  folder_.write("lists/train.txt", lists(60, 40));
  folder_.write("lists/test.txt", lists(50, 60));
  options_.split = "given";
  expect_the_same();
  folder_.write("lists/valid.txt", lists(30, 50));
  expect_the_same();
  options_.split = "random";
  expect_the_same();
}

TEST_F(Spilled, Boards) {
  std::mt19937 draw(6);
  std::string boards;
  for (int b = 0; b < 60; ++b) {
    std::vector<std::string> pins;
    for (int n = static_cast<int>(draw() % 15); n >= 0; --n) pins.push_back(format("pin {}", draw() % 40));
    boards += testing::bson_board(format("board {}", b % 50), pins);
  }
  source_.format = "pinterest";
  source_.path = folder_.write("boards.bson", boards);
  expect_the_same();
}

TEST_F(Spilled, NumbersOfTheSource) {
  std::mt19937 draw(4);
  const auto pairs = [&](int begin, int end) {
    std::string text = "uid,sid\n";
    for (int u = begin; u < end; ++u) {
      if (u % 10 == 4) continue;  // a row of nothing
      for (int n = 0; n < 9; ++n) text += format("{},{}\n", u, draw() % 50);
    }
    return text;
  };
  source_.format = "pro_sg";
  source_.path = folder("pro_sg");
  folder_.write("pro_sg/train.csv", pairs(0, 60));
  folder_.write("pro_sg/validation_tr.csv", pairs(60, 72));
  folder_.write("pro_sg/validation_te.csv", pairs(61, 70));
  folder_.write("pro_sg/test_tr.csv", pairs(72, 80));
  folder_.write("pro_sg/test_te.csv", pairs(72, 81));
  std::string items;
  for (int i = 0; i < 50; ++i) items += format("item {}\n", 50 - i);
  folder_.write("pro_sg/unique_sid.txt", items);
  options_.split = "given";
  expect_the_same();
}

TEST_F(Spilled, WhatIsKnownOfUsersGoesAlong) {
  std::string ratings;
  for (const RandomEvent& e : random_events(2000, 60, 40)) {
    ratings += format("{}::{}::{}::{}\n", e.user, e.item, e.rating.front(), e.time);
  }
  std::string users;
  for (int u = 0; u < 60; ++u) users += format("{}::{}::{}::1::x\n", u, u % 2 == 0 ? "F" : "M", u % 5);
  source_.format = "movielens_dat";
  source_.path = folder_.write("ratings.dat", ratings);
  folder_.write("users.dat", users);
  options_.features = {"gender", "age"};
  expect_the_same();
  EXPECT_GT(io::DatasetFile(folder_.path("memory.h5")).entries("train/features"), 50);
  options_.split = "leave_one_out";
  std::filesystem::remove(folder_.path("memory.h5"));
  run("memory.h5", 0);
  run("disk.h5", 500);
  expect_same_file();
}

TEST_F(Spilled, IntoACompressedFile) {
  use_csv();
  options_.compression = 1;
  const PrepareReport expected = run("memory.h5", 0);
  EXPECT_EQ(to_table(run("disk.h5", 500)), to_table(expected));
  expect_same_file();
  EXPECT_TRUE(run("disk.h5", 500).was_there);
  options_.compression = 2;
  EXPECT_FALSE(run("disk.h5", 500).was_there);
}

TEST_F(Spilled, ErrorsAreTheSame) {
  use_csv();
  const auto refused = [&](double bytes) {
    return test::message_of<InputError>([&] { run("refused.h5", bytes); });
  };
  const auto expect_refused_alike = [&](const std::string& says) {
    EXPECT_NE(refused(0).find(says), std::string::npos) << refused(0);
    EXPECT_EQ(refused(0), refused(300));
  };
  options_.min_rating = 9;
  expect_refused_alike("rating >= 9");
  options_.min_rating = 2;
  options_.min_item_users = 500;
  expect_refused_alike("items with >= 500 users");
  options_.min_item_users = 0;
  options_.min_user_items = 500;
  expect_refused_alike("users with >= 500 items");
  options_.min_user_items = 3;
  options_.test_users = 90;
  expect_refused_alike("leave none of the");
  mode_.strict = true;
  source_.path = folder_.write(
      "twice.csv", "userId,movieId,rating,timestamp\n9,1,4,1\n5,1,4,1\n6,1,4,1\n6,1,5,1\n5,1,4,1\n");
  expect_refused_alike("twice.csv:5");
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path(""))) {
    EXPECT_EQ(entry.path().extension(), ".csv") << entry.path();  // nothing is left behind
  }
}

TEST_F(Spilled, WhatAProgramThatWasKilledLeftGoes) {
  use_csv();
  const std::string left = folder_.write("disk.h5.spill.tmp-elsewhere-1", "x");
  const std::string other = folder_.write("disk.h5.spill.tmp-elsewhere-2", "x");  // may still be at work
  std::filesystem::last_write_time(left, std::filesystem::last_write_time(left) - std::chrono::hours(2));
  run("disk.h5", 500);
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(other));
}

// Temporary files lie beside the dataset, not beside a link to it.
TEST_F(Spilled, WhereALinkLeadsIsWhereItWorks) {
  use_csv();
  std::filesystem::create_directory(folder_.path("large"));
  std::filesystem::create_symlink("large/disk.h5", folder_.path("link.h5"));
  const std::string left = folder_.write("large/disk.h5.spill.tmp-elsewhere-1", "x");
  std::filesystem::last_write_time(left, std::filesystem::last_write_time(left) - std::chrono::hours(2));
  run("link.h5", 500);
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::is_regular_file(folder_.path("large/disk.h5")));
  EXPECT_TRUE(std::filesystem::is_symlink(folder_.path("link.h5")));
}

TEST_F(Spilled, OnlyWhatDoesNotFit) {
  use_csv();
  Wanted wanted = wanted_of(options_, false);
  wanted.spill_beside = folder_.path("x.h5");
  wanted.memory = 1e9;
  EXPECT_FALSE(read_ratings(source_, wanted, log_, progress_).spilled);
  wanted.memory = 5000;
  const RawRatings ratings = read_ratings(source_, wanted, log_, progress_);
  ASSERT_TRUE(ratings.spilled);
  EXPECT_EQ(ratings.events.size(), 0);
  EXPECT_GT(ratings.spilled->count(), 5);
  std::int64_t events = 0;
  for (std::int64_t b = 0; b < ratings.spilled->count(); ++b) {
    std::int64_t last = -1;
    for (const SpilledEvent& event : ratings.spilled->load(b).events) {
      EXPECT_EQ(ratings.spilled->bucket_of(event.user), b);
      EXPECT_GT(event.place(), last);
      last = event.place();
      ++events;
    }
  }
  EXPECT_EQ(events, ratings.size());
}

}  // namespace
}  // namespace vaecf::data
