#include <vaecf/base/text.hpp>
#include <vaecf/io/dataset_file.hpp>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using Cases = std::vector<std::pair<std::string, std::string>>;

/// A test with the ratings `stdin`, and with c.yaml, which prepares out/made.h5 from standard input.
class StandardInput : public ProgramTest {
 protected:
  StandardInput() {
    workspace.write("stdin", made_ratings(20));
    workspace.write("titles.csv", "movieId,title\n1,One\n");
    workspace.write(
        "c.yaml",
        "data: {file: out/made.h5, source: {format: delimited, path: \"-\", user_column: userId, "
        "item_column: movieId, rating_column: rating,\n  items: {path: titles.csv, item_column: "
        "movieId, title_column: title}},\n  prepare: {split: liang2018, min_rating: 4, min_user_items: 1, validation_users: 1, "
        "test_users: 1}}\n");
  }
  Result pipe(const std::string& command, const std::string& arguments = "") const {
    return workspace.bash(command + " | $PROGRAM prepare c.yaml " + arguments);
  }
};

// The file is called as standard input is, so that the attribute `source` is the same, too.
TEST_F(StandardInput, GivesTheDatasetOfAFileByteForByte) {
  const Result piped = pipe("(head -c 1000 stdin; sleep 0.2; tail -c +1001 stdin)");
  expect_in(piped.err, {"stdin: column 0 for \"userId\" (by name)", "wrote out/made.h5"});
  const Result read =
      workspace.succeed("prepare c.yaml --set data.source.path=stdin --set data.file=file.h5");
  EXPECT_EQ(piped.out, read.out);
  EXPECT_EQ(workspace.read("out/made.h5"), workspace.read("file.h5"));
  const io::DatasetFile file(workspace.path("file.h5"));
  const auto source = std::get<std::string>(file.attributes().at("source"));
  expect_in(source, {"stdin (", "), titles.csv ("});
}

TEST_F(StandardInput, DatasetIsAlwaysMadeAgainUnlessAnotherFileHasItsName) {
  for (int i = 0; i < 2; ++i)
    expect_in(pipe("cat stdin", "--set data.source.file=x").err, {"wrote out/made.h5"});
  expect_in(pipe("cat stdin", "--set data.source.file=x --set data.prepare.held_out=last").err,
            {"warning: data.source.format: delimited with data.prepare.split: liang2018 does not use "
             "data.source.file, data.prepare.held_out; remove"});
  workspace.write("out/made.h5", "text");
  expect_refused(pipe("cat stdin", "--quiet"), "out/made.h5");
  EXPECT_EQ(workspace.read("out/made.h5"), "text");
  EXPECT_EQ(pipe("cat stdin", "--quiet --replace").code, 0);
}

TEST_F(StandardInput, InvalidInputIsAnErrorAndLeavesNoFile) {
  const auto before = workspace.files();
  for (const auto& [command, message] :
       Cases{{"true", "stdin: the file is empty; its first line must contain the column names"},
             {"head -1 stdin", "stdin: the file contains no ratings"},
             {"gzip < stdin", "stdin: is compressed, but standard input must be text"},
             {"(cat stdin; echo x)", "stdin:122: 'x'"}})
    expect_refused(pipe(command, "--quiet --strict"), message);
  for (const auto& [settings, message] :
       Cases{{"data.source.format=json_lines", "only data.source.format: delimited reads, got json_lines"},
             {"data.prepare.split=given", "data.prepare.split: given reads several files"},
             {"data.source.items.path=-", "-: no such file"}})
    expect_refused(pipe("cat stdin", "--quiet --set data.prepare.min_rating=0 --set " + settings), message);
  EXPECT_EQ(workspace.files(), before);
}

TEST_F(StandardInput, KilledProgramLeavesTheEarlierDataset) {
  pipe("cat stdin");
  const std::string earlier = workspace.read("out/made.h5");
  workspace.bash(
      "mkfifo pipe; $PROGRAM prepare c.yaml < pipe & exec 3> pipe; cat stdin >&3; sleep 0.3; kill -9 $!; wait; "
      "rm pipe");
  EXPECT_EQ(workspace.read("out/made.h5"), earlier);
  workspace.bash("rm out/made.h5");
  pipe("cat stdin");
  EXPECT_EQ(workspace.files(), (std::vector<std::string>{"c.yaml", "out/made.h5", "stdin", "titles.csv"}));
}

}  // namespace
}  // namespace vaecf::app
