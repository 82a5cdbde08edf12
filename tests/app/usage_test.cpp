#include <vaecf/models/model.hpp>

#include <fstream>
#include <iterator>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using Usage = ProgramTest;

TEST_F(Usage, HelpAndVersionArePrintedToStandardOutput) {
  expect_in(workspace.succeed("--help").out,
            {"--train", "--set", "prepare", "synthesize", "recommend", "evaluate", "similar", "inspect",
             "--help-config", names_of<models::ModelType>()});
  EXPECT_EQ(workspace.program("--version").out.rfind("vaecf_dist ", 0), 0U);
  expect_in(workspace.succeed("--help-config").out,
            {"learning_rate: 0.001", "(one of auto, fp32, bf16, fp16, tf32, bf16x3)"});
  workspace.succeed("recommend --help");
}

TEST_F(Usage, SchemaOfConfigurationsIsTheStoredOne) {
  std::ifstream file(VAECF_SCHEMA);
  const std::string stored((std::istreambuf_iterator<char>(file)), {});
  EXPECT_TRUE(workspace.succeed("--config-schema").out == stored)
      << "to renew it after a change of keys: vaecf_dist --config-schema > configs/schema.json";
}

TEST_F(Usage, InvalidArgumentsEndWithExitCode2AndAHint) {
  for (const char* arguments : {"",
                                "--trian c.yaml",
                                "c.yaml d.yaml",
                                "prepare",
                                "synthesize",
                                "synthesize o.h5 --users many",
                                "recommend c.yaml --split some",
                                "recommend c.yaml --top 0",
                                "recommend c.yaml --at-most a",
                                "recommend c.yaml --at-most a 0",
                                "recommend c.yaml --input a --split test",
                                "c.yaml -v --quiet",
                                "c.yaml --set",
                                "c.yaml --test --resume a.h5",
                                "c.yaml --test --start-from a.h5",
                                "c.yaml --start-from ''",
                                "c.yaml --start-from a.h5 --resume auto",
                                "c.yaml --train --per-user a.h5",
                                "c.yaml --test --per-user ''",
                                "recommend c.yaml --input ''",
                                "similar c.yaml",
                                "c.yaml --timeline ''",
                                "c.yaml --plan --train",
                                "c.yaml --plan --test",
                                "c.yaml --plan --benchmark",
                                "c.yaml --plan --resume auto",
                                "c.yaml --plan --timeline a.json",
                                "c.yaml --plan --seeds 2"}) {
    EXPECT_EQ(count(workspace.refuse(arguments, "vaecf_dist --help").err, "\n"), 1) << arguments;
  }
}

TEST_F(Usage, MistypedCommandsAreRefusedWithASuggestion) {
  for (const auto& [typed, meant] :
       std::vector<std::pair<std::string, std::string>>{{"preapre c.yaml", "prepare"},
                                                        {"recomend c.yaml", "recommend"},
                                                        {"inspct", "inspect"},
                                                        {"-v docter", "doctor"},
                                                        {"expor a.h5 --output b", "export"}})
    workspace.refuse(typed, "is neither a command nor a configuration (did you mean " + meant + "?)");
  // A file with such a name is a configuration.
  workspace.write("inspekt", "train: {epochs: 0}\n");
  workspace.refuse("inspekt", "train.epochs must be at least 1");
  workspace.refuse("other", "cannot read the configuration other");
  workspace.refuse(".", "cannot read the configuration .: it is a folder; that of a run is ./config.yaml");
  workspace.refuse("scaling runs/scaling-ml20m", "launch/scaling CONFIG --ranks 1,2,4");
  // Reserved, also if there is such a file.
  workspace.write("train", "name: x\n");
  workspace.refuse("train x.yaml", "train: is not a command; write vaecf_dist x.yaml --train (see");
  workspace.refuse("test", "test: is not a command; write vaecf_dist CONFIG.yaml --test (see");
  workspace.refuse("benchmark -v",
                   "benchmark: is not a command; write vaecf_dist CONFIG.yaml --benchmark (see");
}

TEST_F(Usage, PrintConfigPrintsEveryKeyAsResolvedAndRunsNothing) {
  workspace.write("c.yaml", "name: x\ntrain: {batch_size: 40}\n");
  const Result result = workspace.program("c.yaml --print-config --set train.epochs=3");
  EXPECT_EQ(result.code, 0) << result.err;
  expect_in(result.out, {"name: \"x\"\n", "  epochs: 3\n", "  batch_size: 40\n", "  patience: never\n"});
  EXPECT_FALSE(std::filesystem::exists(workspace.path("runs")));
  workspace.refuse("c.yaml --print-config --set train.epochs=many", "train.epochs");
  EXPECT_EQ(workspace
                .succeed("c.yaml --print-value name --print-value run.directory --set name='a b' "
                         "--set run.directory=x")
                .out,
            "a b\nx\n");
  EXPECT_EQ(workspace.succeed("c.yaml --print-value train.epochs --set train.epochs=3").out, "3\n");
  workspace.refuse("c.yaml --print-value train.epoch", "--print-value: train.epoch is not a key");
}

TEST_F(Usage, ConfigurationErrorsNameFileAndLine) {
  workspace.write("c.yaml", "name: x\ntrain:\n  batch_sise: 5\n");
  workspace.write("d.yaml", "name: x\n");
  EXPECT_EQ(workspace.program("c.yaml").err,
            "vaecf_dist: c.yaml:3: train.batch_sise is not a key (did you mean train.batch_size?)\n");
  workspace.refuse("d.yaml --set train.batch_size=0",
                   "vaecf_dist: --set train.batch_size=0: train.batch_size must be at least 1, got \"0\"\n");
  workspace.refuse("none.yaml",
                   "vaecf_dist: cannot read the configuration none.yaml: No such file or directory\n");
  expect_refused(workspace.bash("VAECF_PROGRESS=fancy $PROGRAM d.yaml"),
                 "VAECF_PROGRESS: must be bar, lines or none, got \"fancy\"");
}

TEST_F(Usage, ConfigurationOfTheInstallationIsReadInAnyFolder) {
  workspace.make_small_run();
  ASSERT_EQ(
      workspace
          .bash("mkdir -p p/bin p/share/vaecf_dist/configs && mv small.yaml p/share/vaecf_dist/configs && "
                "cp \"$(readlink -f $PROGRAM)\" p/bin/vaecf_dist")
          .code,
      0);
  const std::string installed = workspace.path("p/share/vaecf_dist");
  const std::string program = workspace.path("p/bin/vaecf_dist");
  const std::string message = "reading the configuration " + installed + "/configs/small.yaml\n";
  const Result train =
      workspace.bash("$MPIRUN -np 2 " + program + " configs/small.yaml --set train.epochs=1");
  EXPECT_EQ(train.code, 0) << train.err;
  EXPECT_EQ(count(train.err, message), 1) << train.err;
  for (const char* command :
       {"recommend configs/small.yaml --split test --output top.tsv", "doctor configs/small.yaml --quick",
        "similar configs/small.yaml --item 1 --output s.tsv"}) {
    const Result result = workspace.bash(program + " " + command);
    EXPECT_EQ(result.code, 0) << result.err;
    expect_in(result.err, {message});
  }
  expect_refused(workspace.bash(program + " prepare configs/small.yaml -q"),
                 installed + "/configs/small.yaml: data.source.format is not set");
  expect_refused(
      workspace.bash(program + " configs/none.yaml"),
      "cannot read the configuration configs/none.yaml: it is neither in the current folder nor in " +
          installed + "\n");
  expect_refused(workspace.bash(program + " /configs/none.yaml"),
                 "cannot read the configuration /configs/none.yaml: No such file or directory\n");
  // A file of the current folder comes first.
  workspace.bash("mkdir configs && echo 'name: mine' > configs/small.yaml");
  const Result mine = workspace.bash(program + " configs/small.yaml --print-config");
  expect_in(mine.out, {"name: mine\n"});
  EXPECT_EQ(mine.err, "");
}

TEST_F(Usage, FileThatIsNoConfigurationIsOneShortError) {
  std::string lines = "user,item,rating\n";
  while (lines.size() < 500000) lines += "1,2,3.5\n";
  workspace.write("ratings.csv", lines);
  workspace.write("more.csv", lines + lines + lines);
  workspace.write("data.h5", std::string("\x89HDF\r\n\x1a\n\0\0", 10));
  for (const char* file : {"ratings.csv", "more.csv", "data.h5"}) {
    const Result result = workspace.refuse(file, "not a configuration");
    EXPECT_EQ(count(result.err, "\n"), 1) << result.err;
    EXPECT_LT(result.err.size(), 250U) << file;
  }
}

}  // namespace
}  // namespace vaecf::app
