// Tests --plan, which predicts a run and writes nothing.
#include <vaecf/base/error.hpp>

#include <filesystem>
#include <utility>
#include <vector>

#include "app/process_fixture.hpp"
#include "support/for_each_kind.hpp"

namespace vaecf::app {
namespace {

using Plan = SmallRun;

/// Returns the rest of the line of `text` after `label`, without leading spaces.
std::string after(const std::string& text, const std::string& label) {
  const std::size_t at = text.find(label);
  if (at == std::string::npos) return "no " + label + " in " + text;
  const std::size_t begin = text.find_first_not_of(' ', at + label.size());
  return text.substr(begin, text.find('\n', begin) - begin);
}

TEST_F(Plan, StatesTheMemoryAndCommunicationOfARunAndWritesNothing) {
  const std::string wide = "small.yaml --set model.hidden=[600] --set model.latent=200 ";
  const auto before = workspace.files();
  for (const int ranks : {0, 2}) {
    SCOPED_TRACE(ranks);
    const Result plan = workspace.succeed(wide + "--plan", ranks);
    EXPECT_EQ(workspace.files(), before);
    EXPECT_FALSE(workspace.exists("runs"));
    const Result run = workspace.succeed(wide + "--train --verbose", ranks);
    EXPECT_EQ(after(plan.out, "\n  memory"), after(run.err, "memory: "));
    EXPECT_EQ(after(plan.out, "communication/step"),
              ranks == 0 ? "none: one rank" : after(run.err, "communication per step: "));
    if (ranks > 1) expect_in(after(plan.out, "gradients"), {"in buckets of 4 MiB, ", "2 ranks on 1 host"});
    expect_in(plan.out,
              {"plan of small: mult_vae, 160 train users, 60 items, ", " ms, the mean of 3\n",
               " s, 4 steps\n", " s, 20 users, 2 times\n", " s, 2 epochs, without checkpoints and tests\n"});
    workspace.bash("rm -r runs");
  }
}

TEST_F(Plan, CountsTheValidationsOfTheRun) {
  for (const auto& [epochs, every] : std::vector<std::pair<int, int>>{{1, 3}, {3, 3}, {4, 3}, {5, 2}}) {
    SCOPED_TRACE(::testing::Message() << epochs << " " << every);
    const std::string run = format(
        "small.yaml --quiet --set name=run --set train.epochs={} --set validation.every={} ", epochs, every);
    const std::string plan = workspace.succeed(run + "--plan").out;
    workspace.succeed(run + "--train");
    const int validations = workspace.events("validation", "run");
    EXPECT_EQ(validations, (epochs + every - 1) / every);
    expect_in(plan, {format(" s, 20 users, {} times\n", validations)});
    workspace.bash("rm -r runs");
  }
}

TEST_F(Plan, LeavesAnEarlierRunAsItIsEvenIfItFails) {
  workspace.succeed("small.yaml --train --quiet");
  const auto before = workspace.files();
  const std::string events = workspace.read("runs/small/metrics.jsonl");
  workspace.succeed("small.yaml --plan --quiet", 2);
  workspace.refuse("small.yaml --plan --set train.last_batch=drop --set train.batch_size=1000",
                   "train.last_batch: drop leaves no batch", 2);
  EXPECT_EQ(workspace.program("small.yaml --plan --set train.optimizer.learning_rate=1e30").code, 1);
  EXPECT_EQ(workspace.files(), before);
  EXPECT_EQ(workspace.read("runs/small/metrics.jsonl"), events);
}

TEST_F(Plan, SizeOfACheckpointIsThatOfTheFile) {
  testing::for_each_kind([&](const models::Kind& kind) {
    const std::string type = kind.name();
    const std::string run = "wide.yaml --set name=" + type + " --set model.type=" + type;
    workspace.succeed(
        "synthesize wide.h5 --users 200 --items 900 --validation-users 20 --test-users 20 --quiet");
    workspace.write("wide.yaml",
                    "data: {file: wide.h5, virtual_shards: 4}\nmodel: {hidden: [60], latent: 20}\n"
                    "train: {epochs: 1, batch_size: 50}\ndevice: cpu\n");
    const std::string text = after(workspace.succeed(run + " --plan --quiet").out, "files of ");
    workspace.succeed(run + " --train --quiet");
    const auto bytes = static_cast<double>(
        std::filesystem::file_size(workspace.path("runs/" + type + "/checkpoints/best.h5")));
    EXPECT_NEAR(std::stod(text), bytes / 1048576.0, 0.1) << text;
  });
}

TEST_F(Plan, OfASolvedModelHasNoTime) {
  const Result plan =
      workspace.succeed("small.yaml --plan --set model.type=ease --set model.ease.l2=[50,20]", 2);
  expect_in(plan.out, {"MiB per rank while it is solved\n", "at most 2 files of 0.0 MiB",
                       "2 inverses and 2 evaluations to compute; the time is not predicted"});
  expect_in(workspace.succeed("small.yaml --plan --set model.type=item_knn").out,
            {"1 solutions and 1 evaluations"});
  EXPECT_FALSE(workspace.exists("runs"));
}

}  // namespace
}  // namespace vaecf::app
