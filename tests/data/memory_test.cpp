// Datasets do not depend on whether the events fit into the memory limit.
#include <vaecf/io/dataset_file.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <random>
#include <tuple>

#include "data/prepare/event_store.hpp"
#include "data/support.hpp"

namespace vaecf::data {
namespace {

class Memory : public test::PrepareTest {
 protected:
  Memory() {
    options_.min_rating = 2.0;
    options_.min_user_items = 3;
    options_.validation_users = 7;
    options_.test_users = 9;
  }

  PrepareReport run(const std::string& output, double bytes) {
    options_.memory_gib = bytes / 1073741824.0;
    output_ = folder_.path(output);
    return PrepareTest::run();
  }

  // Compares the datasets made with memory for all, some and none of the events.
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
      ASSERT_EQ(found.issues.size(), expected.issues.size());
      for (std::size_t f = 0; f < expected.issues.size(); ++f) {
        EXPECT_EQ(found.issues[f].examples, expected.issues[f].examples);
      }
      EXPECT_TRUE(folder_.read("disk.h5") == folder_.read("memory.h5"));
    }
  }

  // Few items and many events, so that pairs are repeated with different ratings. Some users have few events,
  // and some items few users.
  void use_csv(int count = 3000) {
    std::mt19937 draw(5);
    std::string text = "userId,movieId,rating,timestamp\n";
    for (int e = 0; e < count; ++e) {
      const auto user = draw() % 90;
      if (user % 3 == 0 && draw() % 8 != 0) continue;
      auto item = draw() % 60;
      if (item % 4 == 0 && draw() % 6 != 0) item = 1;
      text += format("{},{},{}.{},{}\n", 1000 - user, 7 * item, draw() % 6, draw() % 2 * 5, draw() % 50);
    }
    source_.format = "movielens_csv";
    source_.path = folder_.write("ratings.csv", text);
  }
  std::string rows(unsigned begin, unsigned end, const std::string& separator,
                   const std::string& first = "") {
    std::string text = first;
    for (unsigned u = begin; u < end; ++u) {
      if (u % 10 == 4) continue;  // an empty row
      for (int n = 0; n < 9; ++n) text += format("{}{}{}\n", u, separator, draw_() % 50);
    }
    return text;
  }

  std::mt19937 draw_{3};
};

TEST_F(Memory, EverySplitMethodIsIndependentOfTheLimit) {
  use_csv();
  for (const SplitMethod split : {SplitMethod::liang2018, SplitMethod::random, SplitMethod::leave_one_out,
                                  SplitMethod::ratio, SplitMethod::time}) {
    for (const HeldOut held_out : {HeldOut::random, HeldOut::last}) {
      if (held_out == HeldOut::last && split != SplitMethod::leave_one_out && split != SplitMethod::ratio)
        continue;
      SCOPED_TRACE(to_string(split) + ", " + to_string(held_out));
      options_.split = split;
      options_.held_out = held_out;
      expect_the_same();
    }
  }
  use_csv(700);
  options_.held_out = HeldOut::random;
  options_.min_item_users = 4;
  options_.min_user_items = 1;
  options_.validation_users = 20;
  options_.test_users = 30;
  for (const SplitMethod split : {SplitMethod::liang2018, SplitMethod::random, SplitMethod::ratio}) {
    options_.split = split;
    expect_the_same();
  }
  options_.split = SplitMethod::leave_one_out;
  options_.validation_users = 0;
  expect_the_same();
}

TEST_F(Memory, GivenSplitsAreIndependentOfTheLimit) {
  options_.split = SplitMethod::given;
  source_.path = folder_.path("");
  source_.format = "adjacency";
  folder_.write("train.txt", rows(0, 60, " "));
  folder_.write("test.txt", rows(5, 50, " "));
  expect_the_same();
  folder_.write("valid.txt", rows(20, 50, " "));
  expect_the_same();
  source_.format = "pro_sg";
  const std::string header = "uid,sid\n";
  folder_.write("train.csv", rows(0, 60, ",", header));
  folder_.write("validation_tr.csv", rows(60, 72, ",", header));
  folder_.write("validation_te.csv", rows(61, 70, ",", header));
  folder_.write("test_tr.csv", rows(72, 80, ",", header));
  folder_.write("test_te.csv", rows(72, 81, ",", header));
  expect_the_same();
}

TEST_F(Memory, ErrorsAreIndependentOfTheLimit) {
  use_csv();
  const auto refused = [&](double bytes) {
    return message_of<InputError>([&] { run("refused.h5", bytes); });
  };
  const auto expect_refused_alike = [&](const std::string& says) {
    expect_in(refused(0), {says});
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
    EXPECT_EQ(entry.path().extension(), ".csv") << entry.path();  // no temporary file remains
  }
}

// Temporary files are next to the dataset, not next to a link to it.
TEST_F(Memory, RemovesSpillFilesOfTerminatedProcesses) {
  use_csv();
  std::filesystem::create_symlink("large/disk.h5", folder_.path("link.h5"));
  const std::string left = folder_.write("large/disk.h5.spill.tmp-elsewhere-1-0123abcd", "x");
  // recent, so its process may still be running
  const std::string other = folder_.write("large/disk.h5.spill.tmp-elsewhere-2-0123abcd", "x");
  std::filesystem::last_write_time(left, std::filesystem::last_write_time(left) - std::chrono::hours(2));
  run("link.h5", 500);
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(other));
  EXPECT_TRUE(std::filesystem::is_regular_file(folder_.path("large/disk.h5")));
  EXPECT_TRUE(std::filesystem::is_symlink(folder_.path("link.h5")));
}

class EventStoreTest : public test::DataTest {
 protected:
  // Adds events in random order of users, and expects to read them grouped by user.
  void expect_back(EventStore store, std::int32_t users, EventFields fields, bool ordered) {
    const bool times = fields != EventFields::basic;
    const bool ratings = fields == EventFields::rating_and_time;
    std::map<std::int32_t, std::vector<Event>> added;
    std::mt19937 random(3);
    for (int e = 0; e < 1000; ++e) {
      const auto user = static_cast<std::int32_t>(random() % static_cast<unsigned>(users));
      const auto part = static_cast<SplitPart>(random() % 5);
      const Event event{user,
                        e,
                        e * 100'000'000LL,
                        part,
                        random() % 2 == 1,
                        times ? 0.5 * e : 0.0,
                        ratings ? 0.1 * e : 0.0};
      added[user].push_back(event);
      store.add(event);
    }
    EXPECT_EQ(store.size(), 1000);
    for (const EventStore::Pass& pass :
         {EventStore::Pass{"all"}, EventStore::Pass{"from", users / 2}, EventStore::Pass{"last", 0, true}}) {
      auto expected = added;
      std::erase_if(expected, [&](const auto& user) { return user.first < pass.first; });
      std::int32_t last = -1;
      store.each_user(pass, progress_, [&](std::span<Event> events) {
        EXPECT_TRUE(!ordered || events.front().user > last);
        last = events.front().user;
        EXPECT_TRUE(std::ranges::equal(events, expected[last], [](const Event& a, const Event& b) {
          return std::tuple(a.user, a.item, std::int64_t{a.index}, a.part, a.positive, a.time, a.rating) ==
                 std::tuple(b.user, b.item, std::int64_t{b.index}, b.part, b.positive, b.time, b.rating);
        }));
        expected.erase(last);
        events.front().item = -1;  // does not change the stored event
      });
      EXPECT_TRUE(expected.empty());
    }
    store.each_user({"none are left"}, progress_, [](std::span<Event>) { ADD_FAILURE(); });
  }
};

TEST_F(EventStoreTest, EachUserReturnsAllEventsFromMemoryAndDisk) {
  for (const double bytes : {std::numeric_limits<double>::infinity(), 12000.0, 1.0}) {
    for (const std::int32_t users : {1, 255, 256, 257, 3000}) {
      const auto store = [&](EventFields fields) {
        return EventStore(make_event_memory(bytes, folder_.path("x"), log_), fields);
      };
      for (const EventFields fields : {EventFields::basic, EventFields::time, EventFields::rating_and_time}) {
        expect_back(store(fields), users, fields, false);
        expect_back(store(EventFields::time).ordered(users, fields), users, fields, true);
      }
    }
  }
  EXPECT_TRUE(folder_.empty());
}

}  // namespace
}  // namespace vaecf::data
