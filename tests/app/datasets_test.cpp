#include <vaecf/io/dataset_file.hpp>

#include <gtest/gtest.h>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using Datasets = TrainedRun;

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

TEST_F(Datasets, RepeatedIdsAreRefusedByEveryCommand) {
  write_by_hand(workspace.path("data.h5"), false, false);
  workspace.succeed("small.yaml --train --quiet");
  workspace.succeed("inspect data.h5");
  for (const bool items : {true, false}) {
    write_by_hand(workspace.path("data.h5"), items, !items);
    const std::string problem =
        items ? "data.h5: rows 17 and 41 of /items/id are both 'i17', but ids must be unique"
              : "data.h5: rows 3 and 9 of /train/user_id are both '3', but ids must be unique";
    for (const std::string arguments :
         {"small.yaml --quiet", "recommend small.yaml --quiet", "inspect data.h5"}) {
      SCOPED_TRACE(arguments);
      expect_refused(workspace.program(arguments), problem);
    }
    expect_in(workspace.program("doctor small.yaml --quick").out, {problem});
    const Result ranks = workspace.ranks(2, "small.yaml --quiet");
    EXPECT_EQ(ranks.code, 2);
    EXPECT_EQ(count(ranks.err, problem), 1) << ranks.err;
  }
}

// A parent process holds the lock, as a notebook with an open file does.
TEST_F(Datasets, LockedFileIsInUseAndNeverToBeReplaced) {
  const std::string best = "runs/small/checkpoints/best.h5";
  const std::string last = "runs/small/checkpoints/epoch-0002.h5";
  workspace.write("ratings.csv", made_ratings(20));
  workspace.write("c.yaml",
                  "data: {file: data.h5, source: {format: movielens_csv, path: ratings.csv}, prepare: "
                  "{min_user_items: 1, validation_users: 1, test_users: 1}}\n");
  ASSERT_TRUE(workspace.exists(last));
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"data.h5", "small.yaml --quiet"},
      {"data.h5", "small.yaml --test --quiet"},
      {"data.h5", "recommend small.yaml --quiet"},
      {"data.h5", "inspect data.h5"},
      {"data.h5", "prepare c.yaml --quiet"},
      {"data.h5", "prepare c.yaml --force --quiet"},
      {"data.h5", "synthesize data.h5 --users 300 --items 60 --interactions-per-user 12 --quiet"},
      {best, "recommend small.yaml --quiet"},
      {best, "similar small.yaml --item 1"},
      {best, "inspect " + best},
      {best, "export " + best + " --output model.onnx"},
      {best, "small.yaml --quiet --set name=new --start-from " + best},
      {last, "small.yaml --resume auto --quiet"},
      {best, "small.yaml --resume auto --quiet"},
  };
  for (const auto& [file, arguments] : cases) {
    SCOPED_TRACE(arguments);
    const Result result = workspace.bash(
        "before=$(sha256sum " + file + "); export HDF5_USE_FILE_LOCKING=TRUE; flock " + file + " $PROGRAM " +
        arguments + "; code=$?; [ \"$(sha256sum " + file + ")\" = \"$before\" ] || echo changed; exit $code");
    expect_refused(result, file + ": is in use by another process");
    for (const char* advice : {"replace", "damaged", "create", "prepare"})
      EXPECT_EQ(count(result.err, advice), 0) << result.err;
  }
  const Result checked =
      workspace.bash("export HDF5_USE_FILE_LOCKING=TRUE; flock data.h5 $PROGRAM doctor small.yaml --quick");
  expect_in(checked.out, {"data.h5: is in use by another process"});
  EXPECT_EQ(count(checked.out, "create it"), 0) << checked.out;
}

}  // namespace
}  // namespace vaecf::app
