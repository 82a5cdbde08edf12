// Events that do not fit into memory make the same dataset as those that do.
#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <random>

#include "support.hpp"
#include "support/bson.hpp"

namespace vaecf::data {
namespace {

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

class Memory : public ::testing::Test {
 protected:
  Memory() {
    options_.min_rating = 2.0;
    options_.min_user_items = 3;
    options_.validation_users = 7;
    options_.test_users = 9;
  }

  PrepareReport run(const std::string& output, double bytes) {
    PrepareOptions options = options_;
    options.memory_gib = bytes / 1073741824.0;
    return prepare(source_, options, "memory", folder_.path(output), mode_, log_, progress_);
  }

  // With memory for all events, for some and for none.
  void expect_the_same() {
    mode_.force = true;
    const PrepareReport expected = run("memory.h5", 0);
    const io::DatasetFile file(folder_.path("memory.h5"));
    EXPECT_GT(file.entries("train"), 50);
    EXPECT_GT(file.entries("test/held_out"), 3);
    for (const double bytes : {40000.0, 1.0}) {
      SCOPED_TRACE(::testing::Message() << bytes << " bytes");
      const PrepareReport found = run("disk.h5", bytes);
      EXPECT_EQ(to_table(found), to_table(expected));
      ASSERT_EQ(found.findings.size(), expected.findings.size());
      for (std::size_t f = 0; f < expected.findings.size(); ++f) {
        EXPECT_EQ(found.findings[f].examples, expected.findings[f].examples);
      }
      EXPECT_TRUE(folder_.read("disk.h5") == folder_.read("memory.h5"));
    }
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

TEST_F(Memory, EverySplit) {
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

TEST_F(Memory, FewUsersOfAnItemAndManyHeldOut) {
  use_csv(700);
  options_.min_item_users = 4;
  options_.min_user_items = 1;
  options_.validation_users = 20;
  options_.test_users = 30;
  for (const std::string split : {"liang2018", "random", "ratio"}) {
    options_.split = split;
    expect_the_same();
  }
  options_.split = "leave_one_out";
  options_.validation_users = 0;
  expect_the_same();
}

TEST_F(Memory, TextIdsThatCameAsNumbersFirst) {
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

TEST_F(Memory, MoviesInOrderOfTheirNumbers) {
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

TEST_F(Memory, ListsAndASplitOfTheirOwn) {
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

TEST_F(Memory, Boards) {
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

TEST_F(Memory, NumbersOfTheSource) {
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

TEST_F(Memory, WhatIsKnownOfUsersGoesAlong) {
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
  for (const std::string split : {"liang2018", "leave_one_out"}) {
    options_.split = split;
    expect_the_same();
    EXPECT_GT(io::DatasetFile(folder_.path("memory.h5")).entries("train/features"), 50);
  }
}

TEST_F(Memory, ErrorsAreTheSame) {
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

// Temporary files are beside the dataset, not beside a link to it.
TEST_F(Memory, WhatAKilledProgramLeftGoes) {
  use_csv();
  std::filesystem::create_directory(folder_.path("large"));
  std::filesystem::create_symlink("large/disk.h5", folder_.path("link.h5"));
  const std::string left = folder_.write("large/disk.h5.spill.tmp-elsewhere-1", "x");
  const std::string other =
      folder_.write("large/disk.h5.spill.tmp-elsewhere-2", "x");  // may still be at work
  std::filesystem::last_write_time(left, std::filesystem::last_write_time(left) - std::chrono::hours(2));
  run("link.h5", 500);
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(other));
  EXPECT_TRUE(std::filesystem::is_regular_file(folder_.path("large/disk.h5")));
  EXPECT_TRUE(std::filesystem::is_symlink(folder_.path("link.h5")));
}

}  // namespace
}  // namespace vaecf::data
