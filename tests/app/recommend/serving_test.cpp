// A checkpoint is served without its configuration and its dataset.
#include <vaecf/base/format.hpp>
#include <vaecf/io/json.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sstream>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

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
                    "{split: random, validation_users: 6, test_users: 8}}\n"
                    "model: {type: item_knn}\n"
                    "validation: {metrics: [ndcg@2], select: ndcg@2}\n");
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
  expect_refused(workspace.program(shipped),
                 "--split test: the dataset films.h5 does not exist; set data.file, or pass new users");
  EXPECT_EQ(workspace.succeed(shipped + "--set data.file=away/films.h5").out, split);
  workspace.succeed("export model.h5 --output model.safetensors --quiet");
  expect_in(workspace.succeed("similar --checkpoint model.h5 --item 3 --titles").out, {"Film "});
  for (const char* const command : {"recommend --input new.csv", "similar --item 3"})
    expect_refused(workspace.program(command), "a configuration or --checkpoint is missing");
  expect_refused(workspace.program("recommend --checkpoint none.h5 --input new.csv"),
                 "none.h5: no such file");
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
  ASSERT_EQ(lines.size(), 80U);
  const auto sliced = lines_of(workspace.succeed(command + "--quiet --set distributed.item_slices=2", 2).out);
  ASSERT_EQ(sliced.size(), lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_NEAR(sliced[i].score, lines[i].score, 1e-5) << i;
  expect_refused(workspace.program(command + "--set model.hidden=[13]"), "must have shape");
  expect_refused(workspace.program(command + "--set model.width=1"), "model.width is not a key");
}

TEST_F(Serving, JsonHasAnObjectPerUser) {
  ship();
  const auto lines =
      lines_of(workspace.succeed("recommend --checkpoint model.h5 --quiet --top 3 --input new.csv").out);
  workspace.succeed(shipped + "--input new.csv --output top.jsonl");
  workspace.succeed(shipped + "--input new.csv --output top.json");
  const io::Json all = io::Json::parse(workspace.read("top.json"));
  const auto objects = io::read_json_lines(workspace.path("top.jsonl"));
  ASSERT_EQ(objects.size(), 2U);
  EXPECT_EQ(all.get<std::vector<io::Json>>(), objects);
  EXPECT_EQ(io::Json::parse(workspace.succeed(shipped + "--input new.csv --format json").out), all);
  EXPECT_EQ(objects[0].at("user").get<std::string>(), "ann");
  EXPECT_EQ(objects[1].at("user").get<std::string>(), "bob");
  EXPECT_TRUE(objects[1].at("scores")[0].is_null()) << "popular items have no score";
  for (std::size_t i = 0; i < 3; ++i) {
    const auto item = objects[0].at("items")[i].get<std::int64_t>();
    EXPECT_EQ(std::to_string(item), lines[i].item);
    EXPECT_EQ(objects[0].at("titles")[i].get<std::string>(), format("Film {}, the", item));
    EXPECT_NEAR(objects[0].at("scores")[i].get<double>(), lines[i].score, 1e-12);
  }
  workspace.succeed("recommend --checkpoint model.h5 --quiet --input new.csv --output plain.jsonl");
  EXPECT_FALSE(io::read_json_lines(workspace.path("plain.jsonl"))[0].contains("titles"));
  // With titles and ids of the source in HDF5 as well.
  workspace.succeed(shipped + "--input new.csv --output top.hdf5");
  EXPECT_EQ(workspace.read("top.hdf5").substr(1, 3), "HDF");
}

TEST_F(Serving, IdsThatAreNotUtf8AreAnErrorInJson) {
  ship();
  workspace.write("odd.csv", "ann,1\n\xe9va,2\n");
  for (const char* const file : {"top.json", "top.jsonl"}) {
    expect_refused(workspace.program(shipped + "--input odd.csv --output " + file),
                   "user \\xe9va is not UTF-8, which JSON requires; choose a .tsv, .csv or .h5 file");
    EXPECT_FALSE(workspace.exists(file));
  }
  EXPECT_EQ(count(workspace.succeed(shipped + "--input odd.csv --output -").out, "\xe9va\t"), 3);
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
  const Result result = workspace.succeed(command + "--user 12 --user-list users.txt --user none");
  EXPECT_EQ(selected(result), (Users{"12", "7", "8", "9"}));
  expect_in(
      result.err,
      {"--user-list users.txt: skipped 2 users who are not among the 40 users of films.h5 (none, nobody)"});
  EXPECT_EQ(workspace.succeed(command + "--user 12 --user-list users.txt --user none", 3).out, result.out);
  expect_refused(workspace.program(command + "--user a --user b"),
                 "--user a, b: not among the 40 users of films.h5; their ids are ");
  workspace.write("unknown.txt", "a\nb\n");
  expect_refused(workspace.program(command + "--user-list unknown.txt"),
                 "--user-list unknown.txt: a, b: not among the 40 users of films.h5");
  workspace.write("none.txt", "user\n");
  expect_refused(workspace.program(command + "--user-list none.txt"), "--user-list none.txt: contains no id");
  const Result ann = workspace.succeed("recommend c.yaml --quiet --input new.csv --user ann");
  EXPECT_EQ(count(ann.out, "ann\t"), 10);
  EXPECT_EQ(count(ann.out, "bob\t"), 0);
}

}  // namespace
}  // namespace vaecf::app
