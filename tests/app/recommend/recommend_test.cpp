#include <vaecf/base/text.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using Recommend = TrainedRun;

TEST_F(Recommend, EveryUserOfTheSplitGetsTheTopItems) {
  workspace.succeed("recommend small.yaml --split test --top 3 --output out/top.tsv --quiet");
  const auto lines = lines_of(workspace.read("out/top.tsv"));
  EXPECT_EQ(lines.size(), 20U * 3U);
  std::set<std::string> users;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    users.insert(lines[i].user);
    if (i % 3 != 0) {
      EXPECT_GE(lines[i - 1].score, lines[i].score) << "best first";
    }
  }
  EXPECT_EQ(users.size(), 20U);
  const std::string one = "recommend small.yaml --split test --quiet --user " + lines[3].user;
  const auto alone = lines_of(workspace.succeed(one + " --top 3").out);
  ASSERT_EQ(alone.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(alone[i].item, lines[3 + i].item);
  // The user's seen items are excluded unless --keep-seen is set.
  EXPECT_EQ(lines_of(workspace.succeed(one + " --top 60 --keep-seen").out).size(), 60U);
  EXPECT_LT(lines_of(workspace.succeed(one + " --top 60").out).size(), 60U);
  for (const int ranks : {0, 2})
    workspace.refuse("recommend small.yaml --user nobody", "--user nobody: not among the 200 users of",
                     ranks);
}

// More users than one batch of the model, in numbers that are not multiples of a kernel's tile.
TEST_F(Recommend, ResultIsIndependentOfRanksAndThreads) {
  workspace.make_small_run(611);
  workspace.succeed("small.yaml --train --quiet");
  const std::string command = "$PROGRAM recommend small.yaml --split all --top 4 --quiet --output ";
  ASSERT_EQ(workspace.bash(command + "one.tsv").code, 0);
  std::set<std::string> users;
  for (const Recommended& line : lines_of(workspace.read("one.tsv"))) users.insert(line.user);
  EXPECT_EQ(users.size(), 611U) << "train, validation and test users";
  for (const std::string way : {"$MPIRUN -np 2", "$MPIRUN -np 3", "OMP_NUM_THREADS=2", "OMP_NUM_THREADS=5"}) {
    const Result result = workspace.bash(way + " " + command + "other.tsv");
    ASSERT_EQ(result.code, 0) << way << ": " << result.err;
    EXPECT_EQ(workspace.read("other.tsv"), workspace.read("one.tsv")) << way;
  }
}

TEST_F(Recommend, ReasonsAreIndependentOfRanksAndOfItemSlices) {
  const std::string command =
      "$PROGRAM recommend small.yaml --split all --top 4 --reasons 2 --quiet --output ";
  ASSERT_EQ(workspace.bash(command + "one.tsv").code, 0);
  const std::string one = workspace.read("one.tsv");
  EXPECT_EQ(one.substr(0, one.find('\n')),
            "user\titem\tscore\tbecause_1\tcontribution_1\tbecause_2\tcontribution_2");
  ASSERT_EQ(workspace.bash("$MPIRUN -np 3 " + command + "three.tsv").code, 0);
  EXPECT_EQ(workspace.read("three.tsv"), one);
  ASSERT_EQ(workspace
                .bash("$MPIRUN -np 2 " + command +
                      "sliced.tsv --set distributed.item_slices=2 && "
                      "for file in one sliced; do cut -f 1-3 $file.tsv > $file; done")
                .code,
            0);
  const auto lines = lines_of(workspace.read("one")), sliced = lines_of(workspace.read("sliced"));
  ASSERT_EQ(sliced.size(), lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_NEAR(sliced[i].score, lines[i].score, 1e-5) << i;
}

// The numbers of users and items are equal on both ranks.
TEST_F(Recommend, RanksWithDifferentInputsAreAnError) {
  const auto known = lines_of(workspace.program("recommend small.yaml --quiet --top 3").out);
  ASSERT_GE(known.size(), 3U);
  workspace.write("a.csv", "user,item\nann," + known[0].item + "\n");
  workspace.write("b.csv", "user,item\nann," + known[1].item + "\n");
  workspace.write("a.txt", known[1].item + "\n");
  workspace.write("b.txt", known[2].item + "\n");
  workspace.write("c.csv", "user,item\nbob," + known[0].item + "\n");
  const std::string program = "exec $PROGRAM recommend small.yaml --quiet --input ";
  for (const std::string other : {"b.csv", "c.csv"}) {
    const Result result = workspace.two_ranks(program + "a.csv", program + other);
    EXPECT_EQ(result.code, 2) << other;
    EXPECT_EQ(count(result.err, "pass the same files to all ranks"), 1) << result.err;
    EXPECT_EQ(result.out, "");
  }
  const std::string one = program + "a.csv --exclude ";
  EXPECT_EQ(workspace.two_ranks(one + "a.txt", one + "b.txt").code, 2) << "different excluded items";
  EXPECT_EQ(workspace.two_ranks(one + "a.txt", one + "a.txt").code, 0);
  const std::string model = program + "a.csv --checkpoint runs/small/checkpoints/";
  ASSERT_EQ(workspace
                .bash("cd runs/small/checkpoints && cp best.h5 copy.h5 && "
                      "for file in epoch-*.h5; do cmp -s best.h5 $file || cp $file other.h5; done")
                .code,
            0);
  EXPECT_EQ(workspace.two_ranks(model + "best.h5", model + "other.h5").code, 2) << "different models";
  EXPECT_EQ(workspace.two_ranks(model + "best.h5", model + "copy.h5").code, 0);
}

TEST_F(Recommend, ReadsNewUsersAndListsOfItems) {
  const auto known = lines_of(workspace.program("recommend small.yaml --quiet --top 3").out);
  ASSERT_GE(known.size(), 3U);
  const std::string& a = known[0].item;
  const std::string& b = known[1].item;
  const std::string& c = known[2].item;
  workspace.write("new.csv", "userId,movieId,rating\r\nann,\"" + a +
                                 "\",4.5\r\nbob,nowhere,1\r\nann,never,2\r\nann," + a + ",3\r\neve," + c +
                                 ",1\r\n");
  workspace.write("list", "item\n" + a + "\n" + b + "\nnothing\n\n" + c + "\n");
  const std::string command = "recommend small.yaml --input new.csv ";
  std::map<std::string, std::set<std::string>> all;
  for (const Recommended& line : lines_of(workspace.succeed(command + "--top 1000").out))
    all[line.user].insert(line.item);
  EXPECT_EQ(all["ann"].size(), 59U) << "all unseen items, fewer than requested";
  EXPECT_FALSE(all["ann"].contains(a));
  EXPECT_TRUE(all["ann"].contains(c));
  EXPECT_EQ(all["eve"].size(), 59U);
  EXPECT_FALSE(all["eve"].contains(c));
  const Result result = workspace.succeed(command + "--include list --top 5");
  expect_in(result.err, {"new.csv: skipped 2 lines with unknown items (nowhere, never)",
                         "--include list: skipped 1 lines with unknown items (nothing)",
                         "1 users have no known items (bob)"});
  const auto lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 2U + 3U + 2U) << "ann and eve have one of the three";
  for (const Recommended& line : lines) {
    EXPECT_EQ(std::isnan(line.score), line.user == "bob") << line.user;
    EXPECT_TRUE(line.item == a || line.item == b || line.item == c) << line.item;
    EXPECT_FALSE((line.user == "ann" && line.item == a) || (line.user == "eve" && line.item == c));
  }
  for (const Recommended& line :
       lines_of(workspace.succeed(command + "--exclude list --top 100 --quiet").out))
    EXPECT_TRUE(line.item != a && line.item != b && line.item != c) << line.item;
  workspace.write("nothing", "nothing\n");
  workspace.refuse(command + "--include nothing", "--include nothing: none of its items (nothing) is among",
                   2);
}

// Items 0 to 7 have users, 8 and 9 are new. Even items have feature 0, odd ones feature 1, as users like
// them.
TEST_F(Recommend, NewItemsAreLeftOutUnlessTheyAreIncluded) {
  io::DatasetWriter writer(workspace.path("new.h5"));
  using Row = std::vector<std::int32_t>;
  for (int user = 0; user < 20; ++user)
    writer.append_row("train", user % 2 == 0 ? Row{0, 2, 4, 6} : Row{1, 3, 5, 7});
  for (const std::string split : {"validation", "test"}) {
    for (const Row& row : {Row{0, 2}, Row{1, 3}}) {
      writer.append_row(split + "/fold_in", row);
      writer.append_row(split + "/held_out", Row{row[0] + 4, row[0] + 8});
    }
  }
  for (std::int32_t item = 0; item < 10; ++item) writer.append_row("items/features", Row{item % 2});
  for (const auto& [name, value] : std::map<std::string, std::int64_t>{
           {"users", 24}, {"items", 10}, {"item_features", 2}, {"new_items", 2}})
    writer.set_attribute(name, value);
  writer.commit();
  workspace.write(
      "new.yaml",
      "name: new\ndata: {file: new.h5}\nevaluation: {metrics: [ndcg@1]}\nvalidation: {select: ndcg@1}\n"
      "model: {type: ease, ease: {l2: 5, feature_weight: 20}}\n");
  const Result run = workspace.succeed("new.yaml");
  expect_in(run.out + run.err, {"EASE features 20 l2 5", "2 new items, ranked among themselves: 2 users"});

  const auto items_of = [&](const std::string& arguments) {
    std::map<std::string, std::set<std::string>> items;
    for (const auto& line : lines_of(workspace.succeed("recommend new.yaml --split test " + arguments).out))
      items[line.user].insert(line.item);
    return items;
  };
  EXPECT_EQ(items_of("--top 10").at("0"), (std::set<std::string>{"1", "3", "4", "5", "6", "7"}));
  workspace.write("four", "4\n");
  EXPECT_EQ(items_of("--top 10 --exclude four").at("0"), (std::set<std::string>{"1", "3", "5", "6", "7"}));
  workspace.write("new", "8\n9\n");
  auto best = items_of("--top 1 --include new");
  EXPECT_EQ(best.at("1"), (std::set<std::string>{"9"}));
}

TEST_F(Recommend, InvalidInputsAreErrors) {
  for (const auto& [arguments, message] : std::vector<std::pair<std::string, std::string>>{
           {"--set name=new", "best.h5 does not exist; train first"}, {"--titles", "titles"}})
    workspace.refuse("recommend small.yaml " + arguments, message);
  workspace.refuse("recommend small.yaml --output /dev/null/o.tsv", "/dev/null/o.tsv", 0, 1);
}

/// A test with a model of films with titles, solved at once.
class Serving : public ProgramTest {
 protected:
  Serving() {
    std::string ratings = "userId,movieId,rating,timestamp\n";
    std::string movies = "movieId,title,genres\n";
    for (int movie = 1; movie <= 12; ++movie) movies += format("{},\"Film {}, the\",x\n", movie, movie);
    for (int user = 1; user <= 40; ++user)
      for (int k = 0; k < 6; ++k) ratings += format("{},{},5,0\n", user, 1 + (user * user + 2 * k) % 12);
    workspace.write("ratings.csv", ratings);
    workspace.write("movies.csv", movies);
    workspace.write("c.yaml",
                    "name: films\n"
                    "data: {file: films.h5, source: {format: movielens_csv, path: ratings.csv}, prepare: "
                    "{split: random, min_rating: 4, min_user_items: 5, validation_users: 6, test_users: 8}}\n"
                    "model: {type: item_knn}\n"
                    "evaluation: {metrics: [ndcg@2]}\nvalidation: {select: ndcg@2}\n");
    workspace.succeed("prepare c.yaml --quiet");
    workspace.succeed("c.yaml --train --quiet");
    workspace.write("new.csv", "user,item\nann,1\nann,\"Film 4, the\"\nbob,nothing\n");
  }

  /// Leaves the checkpoint only, as model.h5.
  void ship() const {
    workspace.bash(
        "mkdir away && mv c.yaml films.h5 ratings.csv movies.csv away && "
        "mv runs/films/checkpoints/best.h5 model.h5 && rm -r runs");
  }
};

const std::string shipped = "recommend --checkpoint model.h5 --quiet --top 3 --titles ";

TEST_F(Serving, CheckpointAloneGivesTheSameLists) {
  const std::string before =
      workspace.succeed("recommend c.yaml --input new.csv --quiet --top 3 --titles").out;
  EXPECT_EQ(count(before, ", the\n"), 6) << before;
  EXPECT_EQ(count(before, "\tnan\t"), 3) << "bob gets the most popular items: " << before;
  const std::string split = workspace.succeed("recommend c.yaml --quiet --top 3 --titles").out;
  ship();
  EXPECT_EQ(workspace.succeed(shipped + "--input new.csv").out, before);
  EXPECT_EQ(workspace.succeed(shipped + "--input new.csv", 2).out, before);
  workspace.refuse(shipped,
                   "--split all: the dataset films.h5 does not exist; set data.file, or pass new users");
  EXPECT_EQ(workspace.succeed(shipped + "--set data.file=away/films.h5").out, split);
  workspace.succeed("export model.h5 --output model.safetensors --quiet");
  expect_in(workspace.succeed("similar --checkpoint model.h5 --item 3 --titles").out, {"Film "});
  for (const char* const command : {"recommend --input new.csv", "similar --item 3"})
    workspace.refuse(command, "a configuration or --checkpoint is missing");
  workspace.refuse("recommend --checkpoint none.h5 --input new.csv", "none.h5: no such file");
}

// Keys of the machine of the training do not count, others do, and --set changes both.
TEST_F(Serving, StoredConfigurationCounts) {
  workspace.make_small_run();
  workspace.succeed(
      "small.yaml --train --quiet --set distributed.item_slices=2 --set model.hidden=[12] --set "
      "backend.threads=3",
      2);
  workspace.bash("rm small.yaml && mv runs/small/checkpoints/best.h5 model.h5");
  const std::string command = "recommend --checkpoint model.h5 --top 4 ";
  const Result one = workspace.succeed(command + "-v");
  EXPECT_EQ(count(one.err, "3 threads"), 0) << one.err;
  const auto lines = lines_of(one.out);
  ASSERT_EQ(lines.size(), 800U);
  const auto sliced = lines_of(workspace.succeed(command + "--quiet --set distributed.item_slices=2", 2).out);
  ASSERT_EQ(sliced.size(), lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_NEAR(sliced[i].score, lines[i].score, 1e-5) << i;
  workspace.refuse(command + "--set model.hidden=[13]", "must have shape");
  workspace.refuse(command + "--set model.width=1", "model.width is not a key");
}

TEST_F(Serving, SelectedUsersInTheOrderOfTheRequest) {
  const std::string command = "recommend c.yaml --quiet --top 3 --split all ";
  std::map<std::string, std::vector<std::string>> all;
  for (const Recommended& line : lines_of(workspace.succeed(command).out))
    all[line.user].push_back(line.item);
  ASSERT_EQ(all.size(), 40U);
  const auto selected = [&](const Result& result) {
    std::vector<std::string> users;
    std::map<std::string, std::vector<std::string>> lists;
    for (const Recommended& line : lines_of(result.out)) {
      if (lists[line.user].empty()) users.push_back(line.user);
      lists[line.user].push_back(line.item);
    }
    for (const auto& [user, items] : lists) EXPECT_EQ(items, all.at(user)) << user;
    return users;
  };
  using Users = std::vector<std::string>;
  EXPECT_EQ(selected(workspace.succeed(command + "--user 31 --user 4 --user 31")), (Users{"31", "4"}));
  workspace.write("users.txt", "user_id\n7\n\n8,further,columns\nnobody\n9\r\n7\n");
  const std::string several = command + "--user 12 --users users.txt";
  const Result result = workspace.succeed(several);
  EXPECT_EQ(selected(result), (Users{"12", "7", "8", "9"}));
  expect_in(result.err,
            {"--users users.txt: skipped 1 users who are not among the 40 users of films.h5 (nobody)"});
  EXPECT_EQ(workspace.succeed(several, 3).out, result.out);
  workspace.refuse(several + " --user none", "--user none: not among the 40 users of films.h5");
  workspace.refuse(command + "--user a --user b",
                   "--user a, b: not among the 40 users of films.h5; their ids are ");
  workspace.write("unknown.txt", "a\nb\n");
  workspace.refuse(command + "--users unknown.txt",
                   "--users unknown.txt: a, b: not among the 40 users of films.h5");
  workspace.refuse(command + "--user 12 --users unknown.txt", "--users unknown.txt: a, b: not among");
  workspace.write("none.txt", "user\n");
  workspace.refuse(command + "--users none.txt", "--users none.txt: contains no id");
  const Result ann = workspace.succeed("recommend c.yaml --quiet --input new.csv --user ann");
  EXPECT_EQ(count(ann.out, "ann\t"), 10);
  EXPECT_EQ(count(ann.out, "bob\t"), 0);
}

}  // namespace
}  // namespace vaecf::app
