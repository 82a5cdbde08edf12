#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "support/train_fixture.hpp"

namespace vaecf::training {
namespace {

using Recommender = TrainTest;

TEST_F(Recommender, ListsTheBestOfTheAllowedItems) {
  options_.train.epochs = 1;
  train_on(1);
  const Csr seen = {{0, 3, 3, 5}, {0, 5, 10, 1, 59}};
  Lists few, all, with_seen, offered;
  run::RecommendOptions three{10, false, std::vector<std::uint8_t>(60, 0)};
  for (const int item : {0, 7, 41}) three.allowed_items[static_cast<std::size_t>(item)] = 1;
  // Only one of two ranks recommends.
  on_ranks(2, [&](const run::Run& run) {
    if (run.communicator.rank() != 0) return;
    const auto lists = [&](const run::RecommendOptions& choice, const Csr& rows) {
      return recommend(run, run_folder().best(), choice, rows.view());
    };
    few = lists({4, false, {}}, seen);
    all = lists({1000, false, {}}, seen);
    with_seen = lists({1000, true, {}}, seen);
    offered = lists(three, seen);
    EXPECT_THROW(lists({0, false, {}}, seen), InputError);
    EXPECT_THROW(lists({1, false, std::vector<std::uint8_t>(60)}, seen), InputError);
    EXPECT_THROW(lists({4, false, {}}, {{0, 1}, {60}}), InputError);
  });
  const std::vector<std::uint8_t> any(60, 1);
  for (const std::size_t u : {0U, 2U}) {
    SCOPED_TRACE(u);
    // With keep_seen, the list has all items.
    const std::span order(&with_seen.items[u * 60], 60);
    const std::span of_order(&with_seen.scores[u * 60], 60);
    EXPECT_EQ(std::set<std::int32_t>(order.begin(), order.end()).size(), 60U);
    EXPECT_TRUE(std::is_sorted(of_order.rbegin(), of_order.rend()));
    const auto row = seen.view().row(static_cast<std::int64_t>(u));
    const auto expect_order = [&](const Lists& found, std::size_t width,
                                  const std::vector<std::uint8_t>& allowed) {
      std::size_t position = u * width;
      for (std::size_t i = 0; i < 60 && position < (u + 1) * width; ++i) {
        if (std::ranges::binary_search(row, order[i]) || allowed[static_cast<std::size_t>(order[i])] == 0)
          continue;
        EXPECT_EQ(found.items[position], order[i]) << position;
        EXPECT_EQ(found.scores[position], of_order[i]) << position;
        ++position;
      }
      for (; position < (u + 1) * width; ++position) {
        EXPECT_EQ(found.items[position], -1) << position;
        EXPECT_EQ(found.scores[position], -std::numeric_limits<float>::infinity()) << position;
      }
    };
    expect_order(few, 4, any);
    expect_order(all, 60, any);
    expect_order(offered, 3, three.allowed_items);
  }
  EXPECT_EQ(offered.items[2], -1) << "the first user has item 0";

  // A user without items receives the most popular items, without scores.
  const io::DatasetFile dataset(options_.data.file);
  std::vector<std::int64_t> counts(60);
  for (const std::int32_t item : dataset.read_rows("train", {0, dataset.rows("train")}).columns) {
    ++counts[static_cast<std::size_t>(item)];
  }
  for (std::size_t position = 0; position + 1 < 60; ++position) {
    const std::int32_t item = all.items[60 + position];
    const std::int32_t next = all.items[60 + position + 1];
    const std::int64_t more = counts[static_cast<std::size_t>(item)] - counts[static_cast<std::size_t>(next)];
    EXPECT_TRUE(more > 0 || (more == 0 && item < next)) << position;
    EXPECT_TRUE(std::isnan(all.scores[60 + position]));
  }
  EXPECT_EQ(std::set<std::int32_t>(&offered.items[3], &offered.items[3] + 3),
            (std::set<std::int32_t>{0, 7, 41}));
}

// Item i is in category i mod 4, in none if that is 3, and in category 4 if i mod 3 = 0. The second user has
// no items and gets the most popular ones.
TEST_F(Recommender, ListsSkipItemsOfFullCategories) {
  options_.train.epochs = 1;
  train_on(1);
  const Csr seen = {{0, 3, 3, 5}, {0, 5, 10, 1, 59}};
  Csr categories;
  const auto of_item = [](std::int32_t item) {
    std::vector<std::int32_t> all;
    if (item % 4 != 3) all.push_back(item % 4);
    if (item % 3 == 0) all.push_back(4);
    return all;
  };
  for (std::int32_t item = 0; item < 60; ++item) categories.append(of_item(item));
  on_ranks(1, [&](const run::Run& run) {
    const auto lists = [&](const run::RecommendOptions& choice) {
      return recommend(run, run_folder().best(), choice, seen.view());
    };
    const Lists whole = lists({60, false, {}});
    for (const auto& [top, most] : {std::pair{4, 1}, {10, 2}, {30, 1}, {30, 3}, {60, 2}}) {
      SCOPED_TRACE(format("{} items, {} of a category", top, most));
      const Lists limited = lists({top, false, {}, 0, categories, most});
      for (std::size_t user = 0; user < 3; ++user) {
        std::vector<std::int32_t> expected;
        std::map<std::int32_t, int> taken;
        for (std::size_t i = user * 60; i < (user + 1) * 60 && whole.items[i] >= 0; ++i) {
          const std::vector<std::int32_t> mine = of_item(whole.items[i]);
          if (std::ranges::any_of(mine,
                                  [&, limit = most](auto category) { return taken[category] == limit; }))
            continue;
          for (const std::int32_t category : mine) ++taken[category];
          expected.push_back(whole.items[i]);
        }
        expected.resize(static_cast<std::size_t>(top), -1);
        const auto begin = limited.items.begin() + static_cast<std::ptrdiff_t>(user) * top;
        EXPECT_EQ(std::vector(begin, begin + top), expected) << user;
      }
    }
  });
}

// Several threads use a model at once.
TEST_F(Recommender, ThreadsWithOtherRequestsGetTheListsOfTheirOwn) {
  options_.validation.baselines = {};
  options_.train.epochs = 1;
  const Csr seen{{0, 3, 4, 6}, {0, 5, 10, 7, 1, 59}};
  for (const auto type : {ModelType::ease, ModelType::mult_vae}) {
    SCOPED_TRACE(to_string(type));
    options_.name = to_string(type);
    options_.model.type = type;
    train_on(1);
    std::vector<run::RecommendOptions> choices = {{5, false, {}},
                                                  {7, true, std::vector<std::uint8_t>(60, 1)}};
    for (const std::size_t item : {1U, 20U, 41U}) choices[1].allowed_items[item] = 0;
    on_ranks(1, [&](const run::Run& run) {
      const run::Recommender recommender(options_, run, io::CheckpointFile(run_folder().best()), false);
      const auto lists_of = [&](std::size_t which) {
        Lists lists{std::vector<std::int32_t>(3 * choices[which].k),
                    std::vector<float>(3 * choices[which].k)};
        recommender.recommend({choices[which], seen.view()}, lists.items, lists.scores);
        return lists;
      };
      const std::vector<Lists> alone = {lists_of(0), lists_of(1)};
      std::vector<int> differing(4, 0);
      {
        std::vector<std::jthread> threads;
        for (std::size_t thread = 0; thread < differing.size(); ++thread)
          threads.emplace_back([&, thread] {
            for (int repeat = 0; repeat < 20; ++repeat) {
              const Lists lists = lists_of(thread % 2);
              differing[thread] += lists.items != alone[thread % 2].items;
              differing[thread] += lists.scores != alone[thread % 2].scores;
            }
          });
      }
      EXPECT_EQ(differing, std::vector<int>(4, 0));
    });
  }
}

}  // namespace
}  // namespace vaecf::training
