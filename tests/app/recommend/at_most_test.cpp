#include <vaecf/base/text.hpp>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using AtMost = TrainedRun;

/// Returns the first `top` lines of each user of which no category has more than `most`. Item i is in
/// category i mod 4, in none if that is 3, and, if `several`, in category 4 if i mod 3 = 0.
std::vector<std::string> expected_lines(const std::vector<Recommended>& all, std::size_t top, int most,
                                        bool several = false) {
  std::map<std::string, std::size_t> count;
  std::map<std::pair<std::string, int>, int> taken;
  std::vector<std::string> kept;
  for (const Recommended& line : all) {
    std::vector<int> categories;
    if (std::stoi(line.item) % 4 != 3) categories.push_back(std::stoi(line.item) % 4);
    if (several && std::stoi(line.item) % 3 == 0) categories.push_back(4);
    bool full = count[line.user] == top;
    for (const int category : categories) full = full || taken[{line.user, category}] >= most;
    if (full) continue;
    for (const int category : categories) ++taken[{line.user, category}];
    ++count[line.user];
    kept.push_back(format("{} {} {:g}", line.user, line.item, line.score));
  }
  return kept;
}

std::vector<std::string> texts(const std::vector<Recommended>& lines) {
  std::vector<std::string> all;
  for (const Recommended& line : lines) all.push_back(format("{} {} {:g}", line.user, line.item, line.score));
  return all;
}

TEST_F(AtMost, ListsSkipItemsOfFullCategories) {
  std::string categories = "item\tgenre\n";
  for (int item = 1; item <= 60; ++item)
    if (item % 4 != 3) categories += format("{}\tgenre {}\n", item, item % 4);
  workspace.write("categories", categories + "nothing\tgenre 1\n");
  const std::string command = "recommend small.yaml --quiet --output ";
  workspace.succeed(command + "all.tsv --top 60");
  const auto all = lines_of(workspace.read("all.tsv"));
  for (const auto& [top, most] : std::vector<std::pair<std::size_t, int>>{{4, 1}, {10, 2}, {30, 1}}) {
    workspace.succeed(command + format("limited.tsv --top {} --at-most categories {}", top, most));
    EXPECT_EQ(texts(lines_of(workspace.read("limited.tsv"))), expected_lines(all, top, most)) << top;
  }
  const std::string limited = "recommend small.yaml --top 6 --at-most categories 1 ";
  expect_in(workspace.succeed(limited + "--output one.tsv").err,
            {"--at-most categories: skipped 1 lines with unknown items (nothing)"});
  for (const std::string way :
       {"$MPIRUN -np 3 $PROGRAM ", "$MPIRUN -np 2 $PROGRAM --set distributed.item_slices=2 "}) {
    const Result result = workspace.bash(way + limited + "--quiet --output other.tsv");
    ASSERT_EQ(result.code, 0) << way << result.err;
    const auto lines = lines_of(workspace.read("other.tsv"));
    const auto first = lines_of(workspace.read("one.tsv"));
    ASSERT_EQ(lines.size(), first.size()) << way;
    for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i].item, first[i].item) << way << i;
  }
}

TEST_F(AtMost, ItemsMayHaveSeveralCategories) {
  std::string fields = ",year,genres,item\n";
  for (int item = 1; item <= 60; ++item)
    fields += format("{},1999,{} |{},{}\n", item % 7, item % 4 == 3 ? "" : format("genre {}", item % 4),
                     item % 3 == 0 ? " 4|4" : "", item);
  workspace.write("fields.csv", fields);
  const std::string command = "recommend small.yaml --quiet --top ";
  const auto all = lines_of(workspace.succeed(command + "60").out);
  for (const auto& [top, most] : std::vector<std::pair<int, int>>{{4, 1}, {10, 2}, {30, 3}}) {
    const auto expected = expected_lines(all, top, most, true);
    EXPECT_NE(expected, expected_lines(all, top, most));
    const std::string limited =
        command + format("{} --at-most fields.csv {} --category-column genres", top, most);
    EXPECT_EQ(texts(lines_of(workspace.succeed(limited).out)), expected) << top;
  }
}

TEST_F(AtMost, PopularItemsAreLimitedToo) {
  workspace.write("categories", "1,a\n2,a\n3,a\n4,a\n5,a\n6,a\n");
  workspace.write("new.csv", "user,item\nbob,nothing\nann,1\n");
  const std::string command = "recommend small.yaml --input new.csv --user bob --quiet --top ";
  std::vector<std::string> expected;
  int of_category = 0;
  for (const Recommended& line : lines_of(workspace.succeed(command + "60").out))
    if (std::stoi(line.item) > 6 || ++of_category <= 2) expected.push_back(line.item);
  const auto lines = lines_of(workspace.succeed(command + "60 --at-most categories 2").out);
  ASSERT_EQ(lines.size(), 56U);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].item, expected[i]);
    EXPECT_TRUE(std::isnan(lines[i].score));
  }
}

TEST_F(AtMost, FileWithoutKnownItemsIsAWarning) {
  workspace.write("items", "nothing\n");
  workspace.write("categories", "nothing,drama\n");
  const std::string command = "recommend small.yaml --top 5 ";
  const Result result = workspace.succeed(command + "--exclude items --at-most categories 1");
  const std::string without = "since none of its items (nothing) is among those of the model (";
  expect_in(result.err, {"--exclude items: excludes nothing, " + without,
                         "--at-most categories: limits nothing, " + without});
  EXPECT_EQ(result.out, workspace.succeed(command).out);
}

using ExcludePairs = TrainedRun;

TEST_F(ExcludePairs, AreExcludedForTheirUsersOnly) {
  const std::string command = "recommend small.yaml --top 5 --quiet ";
  const auto before = lines_of(workspace.succeed(command).out);
  const std::string& user = before.at(0).user;
  workspace.write("pairs.csv", user + "," + before[0].item + "\n" + user + "," + before[2].item +
                                   "\nnobody," + before[1].item + "\n");
  const auto now = lines_of(workspace.succeed(command + "--exclude-pairs pairs.csv").out);
  ASSERT_EQ(now.size(), before.size());
  EXPECT_EQ(now[0].item, before[1].item);
  EXPECT_EQ(now[1].item, before[3].item);
  EXPECT_EQ(now[2].item, before[4].item);
  for (std::size_t n = 5; n < now.size(); ++n) EXPECT_EQ(now[n].item, before[n].item);
  workspace.write("others.csv", "nobody," + before[0].item + "\n");
  const Result others = workspace.succeed("recommend small.yaml --top 5 --exclude-pairs others.csv");
  EXPECT_NE(others.err.find("none of its users, such as nobody, is among those"), std::string::npos);
  EXPECT_EQ(lines_of(others.out).at(0).item, before[0].item);
  workspace.refuse(command + "--exclude-pairs none.csv", "none.csv");
  const std::string way = "$PROGRAM recommend small.yaml --quiet --exclude-pairs pairs.csv --output ";
  ASSERT_EQ(workspace.bash(way + "one.tsv && $MPIRUN -np 2 " + way + "two.tsv").code, 0);
  EXPECT_EQ(workspace.read("one.tsv"), workspace.read("two.tsv"));
}

}  // namespace
}  // namespace vaecf::app
