#include <vaecf/base/text.hpp>

#include <map>
#include <set>
#include <string>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using AtMost = TrainedRun;

TEST_F(AtMost, CategoriesAreReadFromAFileOnAnyNumberOfRanks) {
  std::string fields = ",year,genres,item\n";
  for (int item = 1; item <= 60; ++item)
    fields += format("{},1999,{} |{},{}\n", item % 7, item % 4 == 3 ? "" : format("genre {}", item % 4),
                     item % 3 == 0 ? " 4|4" : "", item);
  workspace.write("fields.csv", fields + "0,1999,genre 1,nothing\n");
  const std::string limited =
      "$PROGRAM recommend small.yaml --top 6 --at-most fields.csv 1 --category-column genres --output ";
  const Result one = workspace.bash(limited + "one.tsv");
  expect_in(one.err, {"--at-most fields.csv: skipped 1 lines with unknown items (nothing)"});
  std::map<std::string, std::set<int>> of_user;
  const auto lines = lines_of(workspace.read("one.tsv"));
  for (const Recommended& line : lines) {
    const int item = std::stoi(line.item);
    for (const int category : {item % 4, item % 3 == 0 ? 4 : 3}) {
      if (category == 3) continue;  // none
      EXPECT_TRUE(of_user[line.user].insert(category).second) << line.user << " " << item;
    }
  }
  EXPECT_GT(lines.size(), 200U * 3U);
  for (const std::string way : {"$MPIRUN -np 3 ", "$MPIRUN -np 2 "}) {
    const std::string slices = way == "$MPIRUN -np 2 " ? " --set distributed.item_slices=2" : "";
    const Result result = workspace.bash(way + limited + "other.tsv" + slices);
    ASSERT_EQ(result.code, 0) << way << result.err;
    const auto others = lines_of(workspace.read("other.tsv"));
    ASSERT_EQ(others.size(), lines.size()) << way;
    for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(others[i].item, lines[i].item) << way << i;
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
  workspace.write("unknown.csv", "user,item\n" + user + ",nothing\n");
  const Result unknown = workspace.succeed("recommend small.yaml --top 5 --exclude-pairs unknown.csv");
  EXPECT_NE(unknown.err.find("--exclude-pairs unknown.csv: excludes nothing"), std::string::npos);
  EXPECT_EQ(unknown.out, others.out);
  workspace.refuse("recommend small.yaml --input unknown.csv",
                   "--input unknown.csv: none of its items (nothing) is among those of the model (");
  workspace.refuse(command + "--exclude-pairs none.csv", "none.csv");
  const std::string way = "$PROGRAM recommend small.yaml --quiet --exclude-pairs pairs.csv --output ";
  ASSERT_EQ(workspace.bash(way + "one.tsv && $MPIRUN -np 2 " + way + "two.tsv").code, 0);
  EXPECT_EQ(workspace.read("one.tsv"), workspace.read("two.tsv"));
}

}  // namespace
}  // namespace vaecf::app
