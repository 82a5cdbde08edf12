#include <vaecf/base/text.hpp>
#include <vaecf/io/dataset_file.hpp>

#include "app/process_fixture.hpp"
#include "support/for_each_kind.hpp"

namespace vaecf::app {
namespace {

using Cases = std::vector<std::pair<std::string, std::string>>;
using Dataset = SmallRun;
using Disk = SmallRun;
using Outputs = TrainedRun;
using TestUsers = SmallRun;

/// Writes ratings of users 1 to 20, and c.yaml, which prepares out/made.h5 from them.
void write_ratings(const TempWorkspace& workspace) {
  workspace.write("ratings.csv", made_ratings(20));
  workspace.write(
      "c.yaml",
      "data: {file: out/made.h5, source: {format: movielens_csv, path: ratings.csv}, prepare: "
      "{split: liang2018, min_rating: 4, min_user_items: 1, validation_users: 1, test_users: 1}}\n");
}

/// A test with the files of write_ratings().
class Prepare : public ProgramTest {
 protected:
  Prepare() { write_ratings(workspace); }
};

TEST_F(Prepare, WritesTheDatasetAndPrintsTheCounts) {
  const Result first = workspace.succeed("prepare c.yaml --set data.prepare.compression=1");
  expect_in(first.out, {"120"});
  expect_in(workspace.succeed("inspect out/made.h5").out,
            {"deflate 1",
             "items of a train user\n"
             "  min 6, 10 % 6, 25 % 6, median 6, 75 % 6, 90 % 6, 99 % 6, max 6; mean 6.0\n"
             "              4 - 7         18\n"});
  const Result again = workspace.succeed("prepare c.yaml --set data.prepare.compression=1");
  expect_in(again.err, {"is up to date"});
  EXPECT_EQ(again.out, first.out);
  expect_in(workspace.succeed("prepare --force c.yaml").err, {"wrote out/made.h5"});
}

TEST_F(Prepare, InspectShowsTheWeights) {
  workspace.write("ratings.csv", "userId,movieId,rating,timestamp\n1,1,1,0\n1,2,3,0\n2,1,2,0\n2,2,6,0\n");
  const std::string prepare =
      "prepare c.yaml --set data.prepare.split=ratio --set data.prepare.test_users=0 --set "
      "data.prepare.validation_users=0 --set data.prepare.min_rating=0";
  workspace.succeed(prepare);
  EXPECT_EQ(workspace.succeed("inspect out/made.h5").out.find("interaction_weights"), std::string::npos);
  workspace.succeed(prepare + " --set data.prepare.interaction_weights=rating");
  expect_in(workspace.succeed("inspect out/made.h5").out,
            {"weights of train interactions\n"
             "  min 0.5, 10 % 0.5, 25 % 0.5, median 1.5, 75 % 1.5, 90 % 1.5, 99 % 1.5, max 1.5; mean 1.0\n",
             "  interaction_weights: rating\n"});
}

TEST_F(Prepare, InvalidRatingsAreErrorsAndLeaveNoFileButLinesAreSkippedUnlessStrict) {
  workspace.write("none.yaml", "name: x\n");
  workspace.refuse("prepare none.yaml --quiet", "data.file is not set");
  workspace.refuse("prepare c.yaml --quiet --set data.source.path=none", "none: no such file");
  for (const auto& [text, message] : Cases{{"", "ratings.csv"},
                                           {made_ratings(20) + "21,1,nan,0\n", "ratings.csv:122"},
                                           {"\x89HDF\n1,2\n", "(\\x89HDF)"}}) {
    workspace.write("ratings.csv", text);
    workspace.refuse(
        message == "ratings.csv:122" ? "prepare c.yaml --strict --quiet" : "prepare c.yaml --quiet", message);
  }
  EXPECT_EQ(workspace.files(), (std::vector<std::string>{"c.yaml", "none.yaml", "ratings.csv"}));
  workspace.write("ratings.csv", made_ratings(20) + "21,1,nan,0\n");
  const Result result = workspace.succeed("prepare c.yaml");
  expect_in(result.err, {"ratings.csv:122: '21,1,nan,0'"});
  expect_in(result.out, {"1 dropped: the rating is not a finite number"});
}

TEST_F(Prepare, KeysWhoseEffectIsMissingAreErrors) {
  workspace.write("stars.csv", "user,item,rating\n1,a,0\n1,b,5\n");
  workspace.write("list.txt", "1 2 3\n");
  workspace.write("d.yaml",
                  "data: {file: out/d.h5, source: {format: delimited, path: stars.csv, user_column: user, "
                  "item_column: item},\n  prepare: {split: random, min_user_items: 1, validation_users: 0, "
                  "test_users: 0}}\n");
  for (const auto& [settings, message] : Cases{
           {"c.yaml --set data.prepare.dates=[2015-01-01,2016-01-01]",
            "has no effect with data.prepare.split: liang2018; set data.prepare.split: time"},
           {"d.yaml --set data.prepare.min_rating=4", "no ratings are read; set data.source.rating_column"},
           {"d.yaml --set 'data.source={format: adjacency, path: list.txt}' --set data.prepare.min_rating=1",
            "data.source.format: adjacency has none, so set data.prepare.min_rating: null"}})
    workspace.refuse("prepare --quiet " + settings, message);
  EXPECT_EQ(workspace.succeed("prepare d.yaml").out.find("rating >="), std::string::npos);
  workspace.succeed("prepare d.yaml --set data.prepare.min_rating=0");
  expect_in(workspace
                .succeed("prepare d.yaml --set data.prepare.min_rating=4 --set "
                         "data.source.rating_column=rating")
                .out,
            {"rating >= 4"});
}

TEST_F(Prepare, ConfigurationWithEveryKeyPreparesTheSameDataset) {
  const std::string made = workspace.succeed("prepare c.yaml").out;
  workspace.write("every_key.yaml", workspace.succeed("c.yaml --print-config").out);
  EXPECT_EQ(workspace.succeed("prepare every_key.yaml --force").out, made);
}

TEST_F(Prepare, EventsBeyondMemoryAreSpilledToATemporaryFile) {
  workspace.write("ratings.csv", made_ratings(600));
  const Result result = workspace.succeed("prepare c.yaml --set data.prepare.memory_gib=1e-6");
  expect_in(result.err, {"temporary file next to out/made.h5"});
  expect_in(result.out, {"3,600 events"});
  EXPECT_EQ(workspace.files(), (std::vector<std::string>{"c.yaml", "out/made.h5", "ratings.csv"}));
  workspace.refuse("prepare c.yaml --set data.prepare.memory_gib=-1", "memory_gib");
}

/// A test with a table of features of all users but user 20.
class UserTable : public Prepare {
 protected:
  UserTable() {
    std::string people = "who,country,band\n";
    for (int user = 1; user < 20; ++user)
      people += std::to_string(user) + (user % 2 == 0 ? ",Chile," : ",Peru,") + "20-29\n";
    workspace.write("people.csv", people + "nobody,Chile,30-39\n");
    workspace.bash(
        "sed -i 's/path: ratings.csv/&, users: {path: people.csv, user_column: who}/; "
        "s/test_users: 1/&, user_features: [country, band]/' c.yaml");
  }
};

TEST_F(UserTable, PrepareHashesFeaturesAndInspectListsThem) {
  expect_in(
      workspace.succeed("prepare c.yaml").out,
      {"features of 19 of 20 users from people.csv; 1 of its 20 rows belong to users outside the dataset",
       "country: 2 values in 2 x 16 columns, set for 19 users",
       "the user is missing and gets no features, first at people.csv: user 20"});
  expect_in(workspace.succeed("inspect out/made.h5").out,
            {"features of users: 64", "train/user_features", "2 16 band"});
  expect_in(workspace.succeed("prepare c.yaml").err, {"is up to date"});
  workspace.write("people.csv", "who,country,band\n1,Peru,\n");
  expect_in(workspace.succeed("prepare c.yaml").out, {"features of 1 of 20 users"});
}

TEST_F(Prepare, NewItemsArePreparedInspectedAndTrainedOn) {
  std::string movies = "movieId,title,genres\n";
  for (int item = 1; item <= 12; ++item)
    movies += format("{},Film {},{}\n", item, item, item % 2 == 0 ? "A|B" : "B");
  workspace.write("movies.csv", movies);
  const std::string options =
      " --set 'data.prepare.item_features=[genres]' --set data.prepare.new_item_fraction=0.2";
  const std::string table = workspace.succeed("prepare c.yaml" + options).out;
  expect_in(table, {"1 new items, without train users\n", "train: removed, of new items",
                    "genres: 2 values in 2 x 16 columns, set for 9 items"});
  const std::string described = workspace.succeed("inspect out/made.h5").out;
  expect_in(described, {"items: 9\n  of them new, without train users: 1\n", "features of items: 32",
                        "items/features", "2 16 genres", "new_item_fraction: 0.2"});
  testing::for_each_kind([&](const models::Kind& kind) {
    workspace.succeed(
        "c.yaml --quiet --set device=cpu --set train.epochs=1 --set model.hidden=[8] --set model.latent=4 --set name=" +
        kind.name() + " --set model.type=" + kind.name());
  });
}

TEST_F(Outputs, NeverOverwriteInputsOrOtherFiles) {
  write_ratings(workspace);
  workspace.write("other.csv", made_ratings(20));
  workspace.write("notes.txt", "mine\n");
  ASSERT_EQ(workspace
                .bash("mkdir split && cp ratings.csv split/train.csv && cp ratings.csv split/test.csv && "
                      "cp runs/small/checkpoints/best.h5 model.onnx && cp notes.txt mine.h5 && "
                      "head -c -1 data.h5 > cut.h5 && "
                      "$PROGRAM recommend small.yaml --top 3 --output top.h5 --quiet && "
                      "find . -type f ! -name before -exec sha256sum {} + > before")
                .code,
            0);
  const auto refused = [&](const std::string& arguments, const std::string& message) {
    workspace.refuse(arguments + " --quiet", message);
  };
  for (const char* arguments :
       {"prepare c.yaml --set data.file=c.yaml",
        "prepare c.yaml --set data.source.path=. --set data.file=ratings.csv",
        "prepare c.yaml --set 'data.source.path=\"*.csv\"' --set data.file=other.csv",
        "prepare c.yaml --set data.prepare.split=given --set data.source.path=split/train.csv --set "
        "data.file=split/test.csv",
        "recommend small.yaml --format tsv --output small.yaml", "recommend small.yaml --output data.h5",
        "export model.onnx --output model.onnx", "small.yaml --timeline small.yaml",
        "small.yaml --timeline data.h5", "small.yaml --timeline runs/small/checkpoints/best.h5",
        "small.yaml --timeline runs/small/metrics.jsonl",
        "small.yaml --set name=new --timeline runs/new/metrics.jsonl",
        "small.yaml --timeline ./runs/small/.lock", "small.yaml --per-user data.h5",
        "small.yaml --test --per-user runs/small/checkpoints/best.h5", "small.yaml --timeline a --per-user a",
        "small.yaml --set name=new --timeline runs/../runs/new/checkpoints/best.h5"})
    refused(arguments, "another file");
  for (const char* file : {"notes.txt", "mine.h5", "top.h5", "cut.h5", "runs/small/checkpoints/best.h5"}) {
    for (const std::string command :
         {"prepare c.yaml --set data.file=", "prepare --force c.yaml --set data.file=",
          "synthesize --users 300 --items 60 --interactions-per-user 12 "})
      refused(command + file, "pass --replace to overwrite it");
  }
  for (const char* arguments : {"prepare c.yaml --set data.file=split", "synthesize split/ --users 300",
                                "recommend small.yaml --output .", "small.yaml --timeline .",
                                "small.yaml --per-user .", "prepare c.yaml --set data.file=none/"})
    refused(arguments, "a folder; choose a file");
  EXPECT_EQ(workspace.bash("sha256sum --quiet -c before").code, 0);
  workspace.succeed("prepare c.yaml --replace --quiet --set data.file=mine.h5");
  // A dataset of prepare may be replaced.
  workspace.succeed("prepare c.yaml --quiet --set data.file=data.h5");
  const std::string synthesize =
      "synthesize cut.h5 --users 300 --items 60 --interactions-per-user 12 --quiet";
  workspace.succeed(synthesize + " --replace");
  workspace.succeed(synthesize);
}

// A parent process holds the lock, as a notebook with an open file does.
TEST_F(Outputs, LockedFileIsInUseAndNeverToBeReplaced) {
  const std::string best = "runs/small/checkpoints/best.h5";
  const std::string last = "runs/small/checkpoints/epoch-0002.h5";
  write_ratings(workspace);
  ASSERT_TRUE(workspace.exists(last));
  for (const auto& [file, arguments] :
       Cases{{"data.h5", "small.yaml --quiet"},
             {"data.h5", "small.yaml --test --quiet"},
             {"data.h5", "recommend small.yaml --quiet"},
             {"data.h5", "inspect data.h5"},
             {"data.h5", "prepare c.yaml --quiet --set data.file=data.h5"},
             {"data.h5", "prepare c.yaml --force --quiet --set data.file=data.h5"},
             {"data.h5", "synthesize data.h5 --users 300 --items 60 --interactions-per-user 12 --quiet"},
             {best, "recommend small.yaml --quiet"},
             {best, "similar small.yaml --item 1"},
             {best, "inspect " + best},
             {best, "export " + best + " --output model.onnx"},
             {best, "small.yaml --quiet --set name=new --start-from " + best},
             {last, "small.yaml --resume auto --quiet"},
             {best, "small.yaml --resume auto --quiet"}}) {
    SCOPED_TRACE(arguments);
    const Result result = workspace.bash(
        "before=$(sha256sum " + file + "); export HDF5_USE_FILE_LOCKING=TRUE; flock " + file + " $PROGRAM " +
        arguments + "; code=$?; [ \"$(sha256sum " + file + ")\" = \"$before\" ] || echo changed; exit $code");
    expect_refused(result, file + ": is in use by another process", 3);
    for (const char* advice : {"replace", "damaged", "create", "prepare"})
      EXPECT_EQ(count(result.err, advice), 0) << result.err;
  }
  const Result checked =
      workspace.bash("export HDF5_USE_FILE_LOCKING=TRUE; flock data.h5 $PROGRAM doctor small.yaml --quick");
  expect_in(checked.out, {"data.h5: is in use by another process"});
  EXPECT_EQ(count(checked.out, "create it"), 0) << checked.out;
}

/// Writes a dataset as another program would, of 40 train users and 6 users of each other part over 60 items.
void write_by_hand(const std::string& path, bool items_repeat, bool users_repeat) {
  io::DatasetWriter writer(path);
  io::IdList items;
  io::IdList users;
  for (std::int32_t u = 0; u < 40; ++u) {
    writer.append_row("train", std::vector<std::int32_t>{u, u + 5, u + 10});
    users.numbers.push_back(u);
  }
  for (const std::string part : {"validation", "test"}) {
    for (std::int32_t u = 0; u < 6; ++u) {
      writer.append_row(part + "/fold_in", std::vector<std::int32_t>{u, u + 5});
      writer.append_row(part + "/held_out", std::vector<std::int32_t>{u + 10});
    }
  }
  for (int i = 0; i < 60; ++i) items.strings.push_back("i" + std::to_string(i));
  if (items_repeat) items.strings[41] = items.strings[17];
  if (users_repeat) users.numbers[9] = users.numbers[3];
  writer.write_ids("items/id", items);
  writer.write_ids("train/user_id", users);
  writer.set_attribute("items", std::int64_t{60});
  writer.commit();
}

TEST_F(Dataset, RepeatedIdsAreRefusedByEveryCommand) {
  write_by_hand(workspace.path("data.h5"), false, false);
  workspace.succeed("small.yaml --train --quiet");
  workspace.succeed("inspect data.h5");
  for (const bool items : {true, false}) {
    write_by_hand(workspace.path("data.h5"), items, !items);
    const std::string problem =
        items ? "data.h5: rows 17 and 41 of /items/id are both 'i17', but ids must be unique"
              : "data.h5: rows 3 and 9 of /train/user_id are both '3', but ids must be unique";
    for (const std::string arguments : {"recommend small.yaml --quiet", "inspect data.h5"})
      workspace.refuse(arguments, problem);
    for (const int ranks : {0, 2}) workspace.refuse("small.yaml --quiet", problem, ranks);
    expect_in(workspace.program("doctor small.yaml --quick").out, {problem});
  }
}

TEST_F(TestUsers, MissingTestUsersAreAnErrorBeforeTraining) {
  workspace.succeed(
      "synthesize data.h5 --users 300 --items 60 --interactions-per-user 12 --test-users 0 --quiet");
  workspace.refuse("small.yaml --quiet", "the dataset has no test users; pass --train");
  EXPECT_FALSE(workspace.exists("runs/small/metrics.jsonl"));
  workspace.succeed("small.yaml --train --quiet");
}

// With three items per user, none is held out.
TEST_F(TestUsers, TestUsersWithoutTargetsAreAnError) {
  std::string lines = "user,item\n";
  for (int user = 0; user < 60; ++user) {
    for (int k = 0; k < 3; ++k) lines += format("{},{}\n", user, (user + 7 * k) % 30);
  }
  workspace.write("pairs.csv", lines);
  const std::string few =
      "small.yaml --set 'data={file: few.h5, source: {format: delimited, path: pairs.csv}, prepare: "
      "{split: liang2018, min_user_items: 0, validation_users: 10, test_users: 10}}'";
  workspace.succeed("prepare " + few);
  workspace.refuse(few + " --quiet", "none of its test users has a held-out item");
  EXPECT_FALSE(workspace.exists("runs/small/metrics.jsonl"));
  expect_in(workspace.succeed(few + " --train").err,
            {"has no validation users that have a held-out item: the last epoch"});
}

TEST_F(Disk, UnwritableFolderEndsWithExitCode1) {
  // Not even root can create a folder below a file.
  workspace.refuse("synthesize data.h5/x/made.h5 --users 3000 --items 200 --quiet", "data.h5/x", 0, 1);
}

TEST_F(Disk, FullDiskLeavesNoPartialFiles) {
  const auto before = workspace.files();
  // A limit on file sizes (8 blocks of 1024 bytes) simulates a full disk.
  const auto within = [&](int blocks, const std::string& arguments) {
    return workspace.bash(format("ulimit -f {}; $PROGRAM {} --quiet", blocks, arguments));
  };
  expect_refused(within(8, "synthesize big.h5 --users 3000 --items 200"), "big.h5", 1);
  EXPECT_EQ(workspace.files(), before);
  const Result trained = within(8, "small.yaml --set train.epochs=5 --set run.retry_seconds=0");
  expect_refused(trained, "vaecf_dist: training is done, but", 1);
  EXPECT_EQ(count(trained.err, "\n"), 2) << trained.err;  // the warning and the error, not one for each epoch
  expect_in(trained.err, {"further failed writes are counted", "writes of events and checkpoints failed)"});
  for (const std::string& file : workspace.files())
    EXPECT_EQ(file.find("checkpoints"), std::string::npos) << file;

  workspace.succeed("small.yaml --train --quiet");
  expect_refused(within(1, "recommend small.yaml --top 50 --output top.tsv"), "top.tsv", 1);
  EXPECT_FALSE(workspace.exists("top.tsv"));
  write_ratings(workspace);
  workspace.write("ratings.csv", made_ratings(3000));
  expect_refused(within(8, "prepare c.yaml"), "out/made.h5", 1);
  EXPECT_FALSE(workspace.exists("out/made.h5"));
}

}  // namespace
}  // namespace vaecf::app
