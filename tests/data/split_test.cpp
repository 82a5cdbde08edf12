// The expected values of the liang2018 split come from the independent implementation
// tests/reference/liang_split.py.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

#include "data/prepare/split_draws.hpp"
#include "data/random.hpp"
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

// All expected values were generated with NumPy 1.24.2 (np.random.seed, permutation, choice).

using Words = std::vector<std::uint32_t>;

Words words(NumpyRandom& random, int count) {
  Words drawn;
  for (int i = 0; i < count; ++i) drawn.push_back(random.word());
  return drawn;
}

TEST(NumpyRandom, WordsAndPermutationsAreThoseOfItsSeed) {
  for (const auto& [seed, expected] :
       std::map<std::uint32_t, Words>{{0, {2357136044, 2546248239, 3071714933, 3626093760, 2588848963}},
                                      {42, {1608637542, 3421126067, 4083286876, 787846414, 3143890026}},
                                      {98765, {381816597, 462228979, 4069238124, 3270897581, 3428218845}}}) {
    NumpyRandom random(seed);
    EXPECT_EQ(words(random, 5), expected) << seed;
  }
  NumpyRandom random(98765);
  const Numbers users = random.permutation(136677);  // those of MovieLens-20M
  EXPECT_EQ(Numbers(users.begin(), users.begin() + 8),
            (Numbers{104323, 11053, 111295, 50587, 126873, 109564, 129424, 1596}));
  EXPECT_EQ(test::crc32(users), 0x6d0f6e4du);
  EXPECT_EQ(words(random, 3), (Words{1109596588, 2106713537, 176623633}));
}

TEST(NumpyRandom, ChoicesOfAllSizes) {
  NumpyRandom random(98765);
  EXPECT_EQ(random.choice(5, 1), Numbers{4});
  EXPECT_EQ(random.choice(9, 1), Numbers{7});
  EXPECT_EQ(random.choice(10, 2), (Numbers{4, 1}));
  random = NumpyRandom(98765);
  Numbers all;
  for (std::int32_t n = 5; n < 1000; ++n) {
    const Numbers picked = random.choice(n, n / 5);
    all.insert(all.end(), picked.begin(), picked.end());
  }
  EXPECT_EQ(all.size(), 99500u);
  EXPECT_EQ(test::crc32(all), 0x3a38e776u);
}

// The expected hashes were computed by an independent implementation of XXH64, with seed 98765.

// Ratings of users 1 to `users`, each with `items` of the items 10 to 20.
std::string growing_ratings(int users, int items) {
  std::string text;
  for (int user = 1; user <= users; ++user)
    for (int k = 0; k < items; ++k) text += format("{}::{}::5::0\n", user, 10 + (3 * user + k) % 11);
  return text;
}

class StableSplit : public test::PrepareTest {
 protected:
  StableSplit() {
    source_.format = "movielens_dat";
    options_.split = SplitMethod::stable;
    options_.test_fraction = 0.2;
    options_.validation_fraction = 0.3;
  }
  Items users_of(const std::string& part) const {
    const Texts ids = test::texts_of(users(part));
    return {ids.begin(), ids.end()};
  }
  void expect_held_out(std::size_t fold_in, std::size_t targets) const {
    for (const std::string part : {"validation", "test"}) {
      const ItemsOf fold_in_of = items_of(part + "/fold_in");
      for (const auto& [user, items] : items_of(part + "/held_out")) {
        EXPECT_EQ(items.size(), user == "ann" ? 2U : targets) << user;
        EXPECT_EQ(fold_in_of.at(user).size(), user == "ann" ? 3U : fold_in) << user;
      }
    }
  }
};

TEST_F(StableSplit, PartOfAUserIsTheHashOfItsIdWhateverOtherUsersThereAre) {
  run(growing_ratings(60, 6));
  const Items test_users = {"9",  "10", "13", "17", "25", "26", "28", "34",
                            "39", "43", "45", "48", "49", "50", "54", "59"};
  const Items validation_users = {"2",  "8",  "14", "16", "18", "19", "22", "23",
                                  "27", "29", "35", "41", "44", "52", "58"};
  EXPECT_EQ(users_of("test"), test_users);
  EXPECT_EQ(users_of("validation"), validation_users);
  const Items train_users = users_of("train");
  EXPECT_EQ(train_users.size(), 60U - 16U - 15U);
  expect_held_out(5, 1);  // floor(0.2 x 6)
  // Other filters drop other users, and ids that are no integers make all of them strings.
  options_.min_user_items = 3;
  options_.held_out_fraction = 0.5;
  std::string ann;
  for (int item = 10; item < 15; ++item) ann += format("ann::{}::5::0\n", item);
  const auto expect_more = [&](const std::string& part, const Items& before) {
    EXPECT_TRUE(std::ranges::includes(users_of(part), before)) << part;
    EXPECT_GT(users_of(part).size(), before.size()) << part;
  };
  run(growing_ratings(200, 8) + ann);
  EXPECT_EQ(users_of("train").size() + users_of("validation").size() + users_of("test").size(), 201U);
  expect_more("train", train_users);
  expect_more("validation", validation_users);
  expect_more("test", test_users);
  expect_held_out(4, 4);
  const Items seeded = users_of("test");
  options_.seed = 1;
  run();
  EXPECT_NE(users_of("test"), seeded);
}

TEST(StableTargets, HaveTheSmallestHashes) {
  Texts items;
  for (int item = 10; item <= 20; ++item) items.push_back(std::to_string(item));
  PrepareOptions options = test::paper_options();
  options.held_out_fraction = 0.4;
  const auto targets = [&](const std::string& user, std::size_t count) {
    Items found;
    const std::vector<bool> is_target = stable_targets(user, std::span(items).first(count), options);
    for (std::size_t i = 0; i < count; ++i)
      if (is_target[i]) found.insert(items[i]);
    return found;
  };
  EXPECT_EQ(targets("7", 11), (Items{"12", "20", "18", "11"}));
  EXPECT_EQ(targets("ann", 11), (Items{"11", "20", "13", "16"}));
  EXPECT_EQ(targets("7", 2), Items{"11"}) << "at least one of two";
  EXPECT_EQ(targets("7", 1), Items());
  std::ranges::reverse(items);
  EXPECT_EQ(targets("ann", 11), (Items{"11", "20", "13", "16"})) << "in any order";
}

TEST_F(StableSplit, FractionsMayBeZeroAndMustLeaveTrainUsers) {
  options_.test_fraction = 0.0;
  run(growing_ratings(60, 6));
  EXPECT_EQ(file().rows("test/held_out"), 0);
  options_.test_fraction = 0.8;
  expect_in(refusal(), {"the sum of validation_fraction and test_fraction must be below 1, got 1.1"});
  options_.test_fraction = 0.699;
  expect_in(refusal("9::1::5::0\n9::2::5::0\n9::3::5::0\n9::4::5::0\n9::5::5::0\n"),
            {"leaves none of the 1 users to train on"});
}

}  // namespace
}  // namespace vaecf::data
