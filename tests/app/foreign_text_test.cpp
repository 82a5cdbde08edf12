#include <vaecf/base/error.hpp>

#include <algorithm>
#include <sstream>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

// A command to the terminal, and as shown.
const std::string red = "\x1b[31m";
const std::string shown_red = "\\x1b[31m";

/// Returns whether the text has control characters other than line ends and tabs.
bool has_controls(const std::string& text) {
  return std::ranges::any_of(text, [](char c) {
    const auto code = static_cast<unsigned char>(c);
    return (code < 0x20 && c != '\n' && c != '\r' && c != '\t') || code == 0x7F;
  });
}

/// A test with a dataset and a model of it, whose ids, titles and names contain a command to the terminal.
class ForeignText : public ProgramTest {
 protected:
  ForeignText() {
    std::string lines = "userId,movieId,rating,timestamp\n";
    std::string titles = "movieId,title,genres\n";
    for (int item = 0; item < 9; ++item) titles += format("i{}{},title {}{},none\n", red, item, red, item);
    for (int user = 0; user < 20; ++user) {
      for (int k = 0; k < 6; ++k) lines += format("u{}{},i{}{},4.5,{}\n", red, user, red, (user + k) % 9, k);
    }
    lines += format("u{}0,i{}0,4.5,9\nu{}0,i{}7,{},9\n", red, red, red, red, red);
    workspace.write("ratings.csv", lines);
    workspace.write("movies.csv", titles);
    workspace.write(
        "c.yaml",
        "name: \"n\\e[31m\"\n"
        "data: {file: data.h5, virtual_shards: 2, source: {format: movielens_csv, path: ratings.csv}, "
        "prepare: {split: liang2018, min_rating: 4, min_user_items: 1, validation_users: 2, test_users: 2}}\n"
        "model: {hidden: [4], latent: 2}\n"
        "train: {epochs: 1, batch_size: 8, annealing: {steps: 2}}\n"
        "evaluation: {metrics: [ndcg@2]}\nvalidation: {select: ndcg@2}\n"
        "device: cpu\n");
  }

  /// Runs a command on a terminal and expects that it shows the text, but nothing that controls the terminal.
  void expect_escaped(const std::string& arguments, int code = 0, int ranks = 0) const {
    const Result result = workspace.on_terminal(arguments, ranks);
    EXPECT_EQ(result.code, code) << arguments << "\n" << result.err;
    EXPECT_FALSE(has_controls(result.out) || has_controls(result.err)) << arguments << "\n"
                                                                       << result.out << result.err;
    expect_in(result.out + result.err, {shown_red});
  }
};

TEST_F(ForeignText, IsEscapedByEveryCommandOnATerminal) {
  expect_escaped("prepare c.yaml");
  expect_escaped("inspect data.h5");
  expect_escaped("c.yaml --print-config");
  expect_escaped("c.yaml");
  expect_escaped("inspect runs/*");
  expect_escaped("inspect -v runs/*/checkpoints/best.h5");
  expect_escaped("export runs/*/checkpoints/best.h5 --output $'model\\e[31m.onnx'");
  expect_escaped("recommend c.yaml --top 2");
  expect_escaped("recommend c.yaml --top 2", 0, 2);
  expect_escaped("recommend c.yaml --top 2 --titles --format csv");
  expect_escaped("similar c.yaml --titles --item $'i\\e[31m0'");
  expect_escaped("doctor c.yaml --quick");
  expect_escaped("synthesize $'made\\e[31m.h5' --users 300 --items 60 --interactions-per-user 12");
}

TEST_F(ForeignText, IsEscapedInErrorsOfEveryCommand) {
  expect_escaped("prepare c.yaml --strict", 2);
  expect_escaped("prepare c.yaml --set $'data.source.format=\\e[31m'", 2);
  expect_escaped("c.yaml --set $'train.\\e[31m=1'", 2);
  expect_escaped("c.yaml --set $'evaluation.metrics=[\"\\\\e[31m@1\"]'", 2);
  expect_escaped("c.yaml $'--\\e[31m'", 2);
  expect_escaped("synthesize o.h5 --users $'\\e[31m'", 2);
  expect_escaped("inspect $'\\e[31m.h5'", 2);
  workspace.succeed("prepare c.yaml --quiet");
  workspace.succeed("c.yaml --train --quiet");
  expect_escaped("recommend c.yaml --user $'\\e[31m'", 2);
  expect_escaped("similar c.yaml --item none", 2);
  expect_escaped("inspect runs/* --metric $'\\e[31m'", 2);
  expect_escaped("export runs/*/checkpoints/best.h5 --output $'\\e[31m'", 2);
  workspace.write("new.csv", format("user,item\n1,i{}0\n1,i{}none\n", red, red));
  expect_escaped("recommend c.yaml --input new.csv --top 2");
  workspace.write("new.csv", format("user{},item\n1,i{}none\n", red, red));
  expect_escaped("recommend c.yaml --input new.csv --top 2", 2);
  workspace.write("a.jsonl", "{\"event\":\"end\",\"reason\":\"\\u001b[31m\"}\n");
  expect_escaped("inspect a.jsonl");
}

TEST_F(ForeignText, IsUnchangedInOutputThatIsNoTerminal) {
  workspace.succeed("prepare c.yaml --quiet");
  workspace.succeed("c.yaml --train --quiet");
  // Two items for each of two users.
  EXPECT_EQ(count(workspace.succeed("recommend c.yaml --split test --top 2 --titles").out, "i" + red), 4);
  expect_in(workspace.succeed("similar c.yaml --titles --item $'i\\e[31m0'").out,
            {"i" + red + "1", "title " + red + "1"});
  expect_in(workspace.succeed("inspect data.h5").out, {"n" + red});
  // mpirun connects ranks, and their shells, to terminals.
  const std::string lists = workspace.succeed("recommend c.yaml --top 2 --quiet").out;
  EXPECT_EQ(workspace.program("recommend c.yaml --top 2 --quiet", 2).out, lists);
  EXPECT_EQ(workspace.bash("$MPIRUN -np 2 bash -c \"$PROGRAM recommend c.yaml --top 2 --quiet; true\"").out,
            lists);
}

TEST_F(ForeignText, MessagesQuoteAtMost200BytesOfIt) {
  const std::string longest(3000, 'z');
  workspace.write("ratings.csv", "userId,movieId,rating,timestamp\n" + longest + ",1,5,0\n" + longest +
                                     ",1,5,0\n1," + longest + "2,5,0\n" + longest + ",1,x,0\n");
  const auto expect_short = [](const Result& result) {
    expect_in(result.err, {"zzz"});
    std::istringstream lines(result.err);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(std::ranges::count(line, 'z'), 200) << line;
  };
  const std::string settings = " --set data.prepare.validation_users=0 --set data.prepare.test_users=0";
  expect_short(workspace.succeed("prepare c.yaml" + settings));
  workspace.write("other.csv", "user" + longest + ",item" + longest + "\n1,2\n");
  for (const std::string& arguments : std::vector<std::string>{
           "prepare c.yaml --set data.source.path=other.csv", "c.yaml --set train." + longest + "=1",
           "c.yaml --set train.epochs=" + longest, "c.yaml --set 'evaluation.metrics=[" + longest + "@1]'",
           "c.yaml --set 'validation.select=" + longest + "'",
           "recommend c.yaml --set data.source.format=" + longest})
    expect_short(workspace.refuse(arguments + settings, ""));
}

}  // namespace
}  // namespace vaecf::app
