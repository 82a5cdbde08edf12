#include <vaecf/base/text.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <algorithm>
#include <set>
#include <sstream>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using PreviousRun = TrainedRun;
using StartFrom = TrainedRun;

const std::string best = "runs/small/checkpoints/best.h5";

TEST_F(PreviousRun, IsMovedAndTheFirstLineSaysWhere) {
  const std::string weights = workspace.read(best);
  const std::string log = workspace.read("runs/small/metrics.jsonl");
  const Result second = workspace.succeed("small.yaml --train --set train.epochs=1", 2);
  const std::string begin = "runs/small contained a run of mult_vae, 2 epochs, 0.";
  std::istringstream lines(second.err);
  std::string line;
  while (std::getline(lines, line) && line.starts_with('[')) continue;  // Open MPI's
  EXPECT_TRUE(line.starts_with(begin)) << second.err;
  EXPECT_TRUE(line.ends_with(" MiB, which was moved to runs/small.1")) << line;
  EXPECT_EQ(workspace.read("runs/small.1/checkpoints/best.h5"), weights);
  EXPECT_EQ(workspace.read("runs/small.1/metrics.jsonl"), log);
  EXPECT_FALSE(workspace.exists("runs/small.1/.lock"));
  const std::string ease = "small.yaml --train --set model.type=ease --set model.ease.l2=[50,20]";
  expect_in(workspace.succeed(ease).err, {"a run of mult_vae, 1 epoch, 0.", "moved to runs/small.2\n"});
  expect_in(workspace.succeed(ease).err, {"a run of ease, 2 solutions, 0.", "moved to runs/small.3\n"});
  // Without a log, the checkpoints say it.
  workspace.bash("rm runs/small/metrics.jsonl");
  expect_in(workspace.succeed(ease).err, {"contained a run of ease, ", "moved to runs/small.4\n"});
}

TEST_F(PreviousRun, IsNotMovedByTestsBenchmarksAndInvalidInput) {
  const std::vector<std::string> before = workspace.files();
  workspace.succeed("small.yaml --test --quiet");
  workspace.succeed(
      "small.yaml --benchmark --quiet --set benchmark.seconds=0.1 --set benchmark.warm_up_seconds=0.1");
  workspace.succeed("small.yaml --train --resume auto --quiet", 2);
  for (const char* const refused :
       {"--train --set data.file=none.h5", "--train --start-from none.h5", "--train --resume none.h5",
        "--train --start-from data.h5", "--train --set train.patience=3 --set validation.select=last"})
    workspace.refuse(std::string("small.yaml ") + refused, "", 2);
  EXPECT_EQ(workspace.files(), before);
}

// One of them waits for the lock for five seconds and is refused; the previous run is moved once.
TEST_F(PreviousRun, IsMovedByOneOfTwoStartsAtOnce) {
  const std::string weights = workspace.read(best);
  const std::string start = "$MPIRUN -np 2 $PROGRAM small.yaml --train --set train.epochs=1000000 2>";
  const Result result = workspace.bash(start + "first.err & first=$!\n" + start +
                                       "second.err & second=$!\n"
                                       "wait -n; echo \"refused $?\"\n" +
                                       until_first_epoch +
                                       "kill -USR1 $first $second 2>/dev/null\n"
                                       "wait -n; echo \"stopped $?\"");
  EXPECT_EQ(result.out, "refused 3\nstopped 75\n")
      << workspace.read("first.err") << workspace.read("second.err");
  const std::string both = workspace.read("first.err") + workspace.read("second.err");
  EXPECT_EQ(count(both, "runs/small: another run is using this folder (process "), 1) << both;
  EXPECT_EQ(count(both, "which was moved to runs/small.1\n"), 1) << both;
  EXPECT_EQ(workspace.read("runs/small.1/checkpoints/best.h5"), weights);
  EXPECT_FALSE(workspace.exists("runs/small.2"));
  EXPECT_EQ(workspace.events("start"), 1);
}

// The holder of the lock may be moving its checkpoints.
TEST_F(PreviousRun, HasNoFolderMadeInItWhileItIsLocked) {
  const Result result = workspace.bash(
      "mv runs/small/checkpoints moved\n"
      "flock runs/small/.lock $PROGRAM small.yaml --train --quiet; echo \"code $?\"");
  EXPECT_EQ(result.out, "code 3\n") << result.err;
  expect_in(result.err, {"runs/small: another run is using this folder ("});
  EXPECT_FALSE(workspace.exists("runs/small/checkpoints"));
}

TEST_F(PreviousRun, InAMountedFolderIsAnError) {
  const std::vector<std::string> before = workspace.files();
  for (const char* const mounted : {"runs/small", "runs/small/checkpoints"}) {
    workspace.write("mounted", std::string("mount --bind ") + mounted + " " + mounted +
                                   " || exit 77\n$PROGRAM small.yaml --train; echo \"code $?\"\n");
    const Result result = workspace.bash("unshare -m bash mounted || unshare -rm bash mounted");
    if (result.out.empty()) GTEST_SKIP() << "needs mounts: " << result.err;
    EXPECT_EQ(result.out, "code 2\n");
    expect_in(result.err, {"vaecf_dist: runs/small: the run in this folder cannot be moved to runs/small.1 (",
                           "; move or delete it, continue with --resume, or use another name"});
    workspace.bash("rm mounted");
    EXPECT_EQ(workspace.files(), before);
    EXPECT_FALSE(workspace.exists("runs/small.1"));
  }
}

TEST_F(PreviousRun, OutputsInTheRunFolderBelongToTheNewRun) {
  const std::string outputs = "small.yaml --timeline runs/small/timeline.json --per-user runs/small/users.h5";
  workspace.succeed(outputs);
  const std::string first = workspace.read("runs/small/timeline.json");
  workspace.succeed(outputs, 2);
  EXPECT_EQ(workspace.read("runs/small.2/timeline.json"), first);
  for (const char* const name : {"timeline.json", "users.h5"})
    for (const std::string run : {"runs/small/", "runs/small.2/"}) EXPECT_TRUE(workspace.exists(run + name));
  EXPECT_FALSE(workspace.exists("runs/small.1/timeline.json"));
}

TEST_F(StartFrom, ANewRunHasTheWeightsOfTheCheckpoint) {
  workspace.succeed("synthesize more.h5 --users 150 --items 70 --interactions-per-user 12 --quiet");
  const Result more = workspace.succeed(
      "small.yaml --train --start-from " + best + " --set data.file=more.h5 --set name=more", 2);
  expect_in(more.err, {"starting from " + best + ": weights of 60 items; 10 items are new, 0 are gone"});
  EXPECT_EQ(count(more.err, "starting from"), 1) << more.err;
  const Result back =
      workspace.succeed("small.yaml --train --start-from runs/more/checkpoints/best.h5 --set name=back", 2);
  expect_in(back.err, {"weights of 60 items; 0 items are new, 10 are gone"});
  // The checkpoint may be in the folder of the new run, from which it is moved.
  const std::string first = workspace.read(best);
  const Result again = workspace.succeed("small.yaml --train --start-from " + best, 2);
  expect_in(again.err, {"starting from runs/small.1/checkpoints/best.h5: weights of 60 items; 0 items"});
  EXPECT_EQ(workspace.read("runs/small.1/checkpoints/best.h5"), first);
  expect_in(workspace.succeed("small.yaml --train --start-from runs/small.1/checkpoints/best.h5").err,
            {"which was moved to runs/small.2\n", "starting from runs/small.1/checkpoints/best.h5: "});
}

// An item's neighbors are those of the checkpoint, not those of the item with its number there.
TEST_F(StartFrom, AsManyItemsOfAnotherDatasetAreMatchedById) {
  workspace.write(
      "c.yaml",
      "name: first\n"
      "data:\n"
      "  file: first.h5\n"
      "  source: {format: movielens_csv, path: ratings.csv}\n"
      "  prepare: {split: liang2018, min_rating: 4, min_user_items: 5, validation_users: 6, test_users: 6, min_item_users: 1}\n"
      "model: {hidden: [16], latent: 8}\n"
      "train: {epochs: 2, batch_size: 20, precision: fp32, annealing: {steps: 10}}\n"
      "device: cpu\n");
  const std::string ratings = made_ratings(60);
  workspace.write("ratings.csv", ratings);
  workspace.succeed("prepare c.yaml --quiet");
  workspace.succeed("c.yaml --train --quiet");
  // Item 1 is now item 10, so that all others have the number before theirs.
  std::string changed = ratings;
  for (std::size_t at = 0; (at = changed.find(",1,4.5", at)) != std::string::npos;)
    changed.insert(at + 2, "0");
  workspace.write("ratings.csv", changed);
  const std::string other = "c.yaml --set name=other --set data.file=other.h5 ";
  workspace.succeed("prepare " + other + "--quiet");
  const std::string start =
      "--train --set train.optimizer.learning_rate=1e-30 "
      "--start-from runs/first/checkpoints/best.h5 ";
  expect_in(workspace.succeed("c.yaml --set name=same " + start).err,
            {"weights of 9 items; 0 items are new, 0 are gone"});
  expect_in(workspace.succeed(other + start).err, {"weights of 8 items; 1 items are new, 1 are gone"});
  const auto similar = [&](const std::string& run) {
    std::string lines;
    std::istringstream all(workspace.succeed("similar c.yaml --quiet --item 5 --set name=" + run).out);
    for (std::string line; std::getline(all, line);)
      if (line.find("\t1\t") == std::string::npos && line.find("\t10\t") == std::string::npos)
        lines += line + "\n";
    return lines;
  };
  const std::string expected = similar("first");
  EXPECT_GE(count(expected, "\n"), 7) << expected;
  EXPECT_EQ(similar("same"), expected);
  EXPECT_EQ(similar("other"), expected);
}

TEST_F(StartFrom, HeldOutUsersThatTheCheckpointWasTrainedOnAreCounted) {
  const std::string settings =
      "c.yaml --quiet --set data.prepare.seed=7 --set name=other --set data.file=other.h5 ";
  workspace.write("ratings.csv", made_ratings(60));
  workspace.write(
      "c.yaml",
      "name: first\n"
      "data: {file: first.h5, source: {format: movielens_csv, path: ratings.csv}, prepare: {split: "
      "random, min_rating: 4, min_user_items: 1, validation_users: 20, test_users: 10}}\n"
      "model: {type: mult_dae, hidden: [4], latent: 2}\n"
      "train: {epochs: 1, batch_size: 8}\n");
  const auto users_of = [&](const std::string& file, const std::string& part) {
    const io::IdList ids = io::DatasetFile(workspace.path(file)).read_ids(part + "/user_id");
    return std::set<std::int64_t>(ids.numbers.begin(), ids.numbers.end());
  };
  workspace.succeed("prepare c.yaml --quiet");
  workspace.succeed("c.yaml --train --quiet");
  workspace.succeed("prepare " + settings);
  const std::set<std::int64_t> train = users_of("first.h5", "train");
  const auto known = [&](const std::string& part) {
    const std::set<std::int64_t> users = users_of("other.h5", part);
    return std::ranges::count_if(users, [&](std::int64_t user) { return train.contains(user); });
  };
  ASSERT_GT(known("validation"), 0);
  const std::string start = " --train --start-from runs/first/checkpoints/best.h5";
  for (const int ranks : {0, 2}) {
    const Result result = workspace.succeed(settings + start, ranks);
    expect_in(result.err, {format("best.h5 was trained on {} validation and {} test users of other.h5",
                                  known("validation"), known("test")),
                           "data.prepare.split: stable"});
    EXPECT_EQ(count(result.err, "was trained on"), 1) << result.err;
  }
  EXPECT_EQ(workspace.succeed("c.yaml --quiet --set name=same" + start).err, "");
  // With the split by hashes, more users change no part; a weak split trains on its held-out users itself.
  for (const std::string split : {"stable", "leave_one_out"}) {
    const std::string by =
        "c.yaml --quiet --set data.prepare.split=" + split +
        " --set data.prepare.validation_users=auto --set data.prepare.test_users=auto"
        " --set data.prepare.test_fraction=0.2 --set data.prepare.validation_fraction=0.2 ";
    workspace.write("ratings.csv", made_ratings(60));
    workspace.succeed("prepare " + by);
    workspace.succeed(by + "--train");
    workspace.write("ratings.csv", made_ratings(90));
    workspace.succeed("prepare " + by + "--set data.file=more.h5");
    EXPECT_EQ(workspace.succeed(by + "--set data.file=more.h5 --set name=more" + start).err, "") << split;
  }
}

}  // namespace
}  // namespace vaecf::app
