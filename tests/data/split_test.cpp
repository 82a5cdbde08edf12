// The expected values of the liang2018 split come from the independent implementation
// tests/reference/liang_split.py.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

#include "data/support.hpp"

namespace vaecf::data {
namespace {

// 1,500 ratings of 60 users and 80 items with repetitions, the same as in tests/reference/liang_split.py.
std::string ratings_dat(const std::string& user_prefix) {
  std::string text;
  std::uint64_t x = 12345;
  const auto draw = [&x] {
    x = (x * 1103515245 + 12345) % (std::uint64_t{1} << 31);
    return x >> 12;
  };
  for (int i = 0; i < 1500; ++i) {
    const auto user = draw() % 60 + 1;
    const auto item = draw() % 80 + 1;
    const auto half_stars = 1 + draw() % 10;
    text += format("{}{}::{}::{:.1f}::0\n", user_prefix, user, item, 0.5 * static_cast<double>(half_stars));
  }
  return text;
}

// Splits with 12 validation and 12 test users.
class StrongSplit : public test::PrepareTest {
 protected:
  StrongSplit() {
    options_.validation_users = options_.test_users = 12;
    mode_.force = true;
    use(folder_.write("ratings.dat", ratings_dat("")));
  }
  void use(const std::string& path) {
    source_.format = "movielens_dat";
    source_.path = path;
    std::ifstream lines(path);
    line_of_.clear();
    for (std::string line; std::getline(lines, line);) {
      const auto item = line.find("::") + 2;
      line_of_.emplace(line.substr(0, line.find("::", item)), line_of_.size());
    }
  }
  std::size_t line_of(const std::string& user, const std::string& item) const {
    return line_of_.at(user + "::" + item);
  }
  struct Expected {
    std::size_t events;
    std::uint32_t crc;
  };
  // Compares the (row, column) pairs of a matrix, whose users begin at the row `first`: those of train by
  // row, others by the id of the user, and those of a user in the order of the file.
  void expect(const std::string& matrix, std::int64_t first, Expected expected) const {
    const io::IdList ids = users(matrix.substr(0, matrix.find('/')));
    const Texts columns = items();
    const Csr csr = rows(matrix);
    std::vector<std::int64_t> order;
    for (std::int64_t r = 0; r < csr.rows(); ++r) order.push_back(r);
    const auto at = [](const auto& values) {
      return [&](std::int64_t r) { return values[static_cast<std::size_t>(r)]; };
    };
    if (first > 0 && ids.numeric()) std::ranges::sort(order, {}, at(ids.numbers));
    if (first > 0 && !ids.numeric()) std::ranges::sort(order, {}, at(ids.strings));
    Numbers pairs;
    for (const std::int64_t r : order) {
      Numbers row(csr.view().row(r).begin(), csr.view().row(r).end());
      std::ranges::sort(row, {}, [&](std::int32_t column) {
        return line_of(ids.text(r), columns.at(static_cast<std::size_t>(column)));
      });
      for (const std::int32_t column : row)
        pairs.insert(pairs.end(), {static_cast<std::int32_t>(first + r), column});
    }
    EXPECT_EQ(pairs.size(), 2 * expected.events) << matrix;
    EXPECT_EQ(test::crc32(pairs), expected.crc) << matrix;
  }
  struct ExpectedPart {
    std::int64_t dropped;
    Expected fold_in;
    Expected targets;
  };
  void expect_part(const std::string& part, std::int64_t first, const ExpectedPart& expected) const {
    EXPECT_EQ(stage(part + ": dropped, no train user has the item").events, expected.dropped);
    expect(part + "/fold_in", first, expected.fold_in);
    expect(part + "/held_out", first, expected.targets);
  }
  void expect_split(std::int64_t users, std::int64_t events, std::size_t items_of_train,
                    const Expected& train, const ExpectedPart& validation, const ExpectedPart& held_test) {
    EXPECT_EQ(run().stages[3].users, users);
    EXPECT_EQ(report_.stages[3].events, events);
    EXPECT_EQ(items().size(), items_of_train);
    expect("train", 0, train);
    expect_part("validation", users - 24, validation);
    expect_part("test", users - 12, held_test);
  }

  std::map<std::string, std::size_t> line_of_;  ///< of each "user::item"
};

using Liang2018 = StrongSplit;

TEST_F(Liang2018, NumericUsers) {
  expect_split(52, 373, 79, {205, 0x6a4f84c7}, {0, {65, 0x46fa1f78}, {13, 0xd0761296}},
               {1, {75, 0x6350d3d6}, {14, 0x664ee641}});
  std::map<std::size_t, std::string> first_appearance;
  for (const auto& [user, of_user] : items_of("train"))
    for (const std::string& item : of_user) first_appearance[line_of(user, item)] = item;
  Texts numbered;
  for (const auto& [line, item] : first_appearance)
    if (std::ranges::find(numbered, item) == numbered.end()) numbered.push_back(item);
  EXPECT_EQ(items(), numbered);
}

TEST_F(Liang2018, StringUserIdsAreSortedAsStrings) {
  use(folder_.write("ratings.dat", ratings_dat("u")));
  expect_split(52, 373, 75, {199, 0xea6fa3ca}, {5, {69, 0x58eb1205}, {12, 0xa6de6af0}},
               {5, {70, 0xc47af0fe}, {13, 0xe3e6349e}});
}

TEST_F(Liang2018, UsersWithFewEventsAndAnotherSeed) {
  options_.min_user_items = 3;
  options_.seed = 42;
  expect_split(60, 400, 79, {241, 0xf35fae7c}, {1, {67, 0x97bb1142}, {11, 0x76b50c3a}},
               {0, {69, 0x40dfeff2}, {11, 0xca33041d}});
  EXPECT_GT(stage("validation: users without a target").users, 0);
}

// Real data, which must not be redistributed. The expected values were computed once with NumPy's generator
// and pandas.
TEST_F(Liang2018, MovieLens1M) {
  const char* const path = std::getenv("VAECF_TEST_ML1M");
  if (path == nullptr) GTEST_SKIP() << "VAECF_TEST_ML1M does not name ML-1M's ratings.dat";
  use(path);
  options_.validation_users = options_.test_users = 500;
  run();
  const std::array<std::array<std::int64_t, 3>, 4> stages = {
      {{1000209, 6040, 3706}, {1000209, 6040, 3706}, {575281, 6038, 3533}, {575272, 6034, 3533}}};
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StageCounts& found = report_.stages.at(s);
    EXPECT_EQ((std::array{found.events, found.users, found.items}), stages[s]) << found.stage;
  }
  EXPECT_EQ(file().rows("train"), 5034);
  EXPECT_EQ(file().entries("train"), 480438);
  Texts first = items();
  ASSERT_EQ(first.size(), 3502u);
  first.resize(5);
  EXPECT_EQ(first, (Texts{"1193", "3408", "2355", "1287", "2804"}));
  expect_part("validation", 5034, {11, {40901, 0x40b70083}, {9973, 0x44095da9}});
  expect_part("test", 5534, {26, {35341, 0xe40b00fe}, {8582, 0xe01c3bba}});
  EXPECT_EQ(stage("validation: users without a target").users + stage("test: users without a target").users,
            0);
}

TEST_F(StrongSplit, EachUserIsInOnePartAndNoEventIsLost) {
  for (const SplitMethod split : {SplitMethod::liang2018, SplitMethod::random}) {
    options_.split = split;
    run();
    Items users;
    std::size_t events = 0;
    for (const std::string part : {"train", "validation", "test"}) {
      ItemsOf all = items_of(part == "train" ? part : part + "/fold_in");
      if (part != "train") {
        events += static_cast<std::size_t>(stage(part + ": dropped, no train user has the item").events);
        for (auto& [user, targets] : items_of(part + "/held_out"))
          all.at(user).merge(targets), events += targets.size();
      }
      for (const auto& [user, items] : all) {
        EXPECT_TRUE(users.insert(user).second) << user;
        events += items.size();
        for (const std::string& item : items) EXPECT_NO_THROW(line_of(user, item));
      }
    }
    EXPECT_EQ(events, 373u);
    EXPECT_EQ(users.size(), 52u);
  }
}

TEST_F(StrongSplit, EveryUserWithTwoEventsHasATargetInTheRandomSplit) {
  options_.split = SplitMethod::random;
  options_.min_user_items = 1;
  options_.held_out_fraction = 0.3;
  run();
  for (const std::string part : {"validation", "test"}) {
    const ItemsOf fold_in = items_of(part + "/fold_in");
    for (const auto& [user, targets] : items_of(part + "/held_out")) {
      const double n = static_cast<double>(targets.size() + fold_in.at(user).size());
      EXPECT_EQ(targets.size(), n < 2 ? 0 : std::max<std::size_t>(1, static_cast<std::size_t>(0.3 * n)));
    }
  }
}

TEST_F(StrongSplit, SeedDeterminesTheRandomSplit) {
  options_.split = SplitMethod::random;
  run();
  const std::string first = folder_.read("tiny.h5");
  run();
  EXPECT_EQ(folder_.read("tiny.h5"), first);
  const Integers train = users("train").numbers;
  options_.seed = 1;
  run();
  EXPECT_NE(users("train").numbers, train);
}

TEST_F(StrongSplit, NumberOfHeldOutUsersIsFromNoneToAllButOne) {
  options_.validation_users = 40;
  expect_in(refusal(), {"40 validation and 12 test users leave none of the 52 users"});
  options_.validation_users = 39;
  run();
  EXPECT_EQ(file().rows("train"), 1);
  options_.validation_users = options_.test_users = 0;
  run();
  EXPECT_EQ(file().rows("train"), 52);
  EXPECT_EQ(file().rows("validation/held_out"), 0);
}

}  // namespace
}  // namespace vaecf::data
