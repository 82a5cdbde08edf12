#include "app/program.hpp"

#include <gtest/gtest.h>

namespace vaecf::app {
namespace {

TEST(Usage, HelpVersionAndReferenceGoToStandardOutput) {
  const Workplace place;
  const Result help = place.program("--help");
  EXPECT_EQ(help.code, 0) << help.err;
  for (const char* word :
       {"--train", "--set", "prepare", "synthesize", "recommend", "inspect", "--help-config"}) {
    EXPECT_NE(help.out.find(word), std::string::npos) << word << " is missing in\n" << help.out;
  }
  EXPECT_EQ(place.program("--version").out.rfind("vaecf_dist ", 0), 0U);
  const Result reference = place.program("--help-config");
  EXPECT_EQ(reference.code, 0);
  EXPECT_NE(reference.out.find("learning_rate: 0.001"), std::string::npos) << reference.out;
  EXPECT_NE(reference.out.find("(one of auto, fp32, bf16, fp16, tf32)"), std::string::npos) << reference.out;
  EXPECT_EQ(place.program("recommend --help").code, 0);
}

TEST(Usage, MistakesCostExitCodeTwoOneLineAndAHint) {
  const Workplace place;
  for (const char* arguments :
       {"", "--trian c.yaml", "c.yaml d.yaml", "prepare", "synthesize", "synthesize o.h5 --users many",
        "recommend c.yaml --split some", "recommend c.yaml --top 0",
        "recommend c.yaml --input a --split test", "c.yaml -v --quiet", "c.yaml --set",
        "c.yaml --test --resume a.h5", "recommend c.yaml --input ''", "c.yaml --timeline ''",
        "scaling c.yaml --predict m.yaml --ranks 2 --batch 5", "scaling f --batch -1"}) {
    const Result result = place.program(arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_EQ(count(result.err, "\n"), 1) << arguments << ": " << result.err;
    EXPECT_NE(result.err.find("vaecf_dist --help"), std::string::npos) << arguments << ": " << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST(Usage, ConfigurationMistakesNameFileAndLine) {
  const Workplace place;
  place.write("c.yaml", "name: x\ntrain:\n  batch_sise: 5\n");
  Result result = place.program("c.yaml");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err, "vaecf_dist: c.yaml:3: train.batch_sise is not a key (did you mean batch_size?)\n");
  place.write("d.yaml", "name: x\n");
  result = place.program("d.yaml --set train.batch_size=0");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err,
            "vaecf_dist: --set train.batch_size=0: train.batch_size must be at least 1, got \"0\"\n");
  result = place.program("none.yaml");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err, "vaecf_dist: cannot read the configuration none.yaml: No such file or directory\n");
  result = place.bash("VAECF_PROGRESS=fancy $PROGRAM d.yaml");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(count(result.err, "VAECF_PROGRESS is \"fancy\""), 1) << result.err;
}

TEST(Usage, FilesThatAreNoConfigurationAreRefusedInOneShortSentence) {
  const Workplace place;
  std::string lines = "user,item,rating\n";
  while (lines.size() < 500000) lines += "1,2,3.5\n";
  place.write("ratings.csv", lines);
  place.write("more.csv", lines + lines + lines);
  place.write("data.h5", std::string("\x89HDF\r\n\x1a\n\0\0", 10));
  for (const char* file : {"ratings.csv", "more.csv", "data.h5"}) {
    const Result result = place.program(file);
    EXPECT_EQ(result.code, 2) << file;
    EXPECT_EQ(count(result.err, "\n"), 1) << result.err;
    EXPECT_NE(result.err.find("not a configuration"), std::string::npos) << result.err.substr(0, 500);
    EXPECT_LT(result.err.size(), 250U) << file;
  }
}

TEST(Usage, ACommaIsASeparator) {
  const Workplace place;
  place.write("c.yaml", "data: {file: o.h5, source: {format: delimited, path: r.csv}}\n");
  place.write("r.csv", "1,2\n1,3\n2,2\n2,3\n3,2\n3,3\n");
  const Result result = place.program(
      "prepare c.yaml --set data.source.separator=, --set data.prepare.min_user_items=1 "
      "--set data.prepare.split=leave_one_out --set data.source.rating_column= ");
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST(Usage, SetTakesListsAndMayBeRepeated) {
  const Workplace place;
  place.make_small_run();
  const Result result = place.program(
      "small.yaml --train --set 'model.hidden=[12, 6]' --set train.epochs=1 --set name=other --quiet");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const std::string resolved = place.read("runs/other/config.yaml");
  EXPECT_NE(resolved.find("hidden: [12, 6]"), std::string::npos) << resolved;
  EXPECT_NE(resolved.find("epochs: 1\n"), std::string::npos) << resolved;
}

}  // namespace
}  // namespace vaecf::app
