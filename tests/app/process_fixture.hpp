#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/messages.hpp"
#include "support/temporary_folder.hpp"

/// Runs the real program, as a user would.
namespace vaecf::app {

/// Exit code and output of a process.
struct Result {
  int code = -1;  ///< 124: time limit exceeded
  std::string out;
  std::string err;
};

/// A temporary folder for one test, and functions that run the program in it. The destructor removes the
/// folder.
class TempWorkspace {
 public:
  TempWorkspace();

  /// Runs a line of bash in the folder; $PROGRAM is the program, $MPIRUN starts ranks that may share cores.
  Result bash(const std::string& line, int seconds = 60) const;
  /// Runs the program, under mpirun if `ranks` > 0, with standard output on a terminal, whose line ends are
  /// "\r\n".
  Result on_terminal(const std::string& arguments, int ranks = 0) const;
  /// Runs the program, under mpirun if `ranks` > 0.
  Result program(const std::string& arguments, int ranks = 0) const;
  /// Runs the program and expects exit code 0.
  Result succeed(const std::string& arguments, int ranks = 0) const;
  /// Runs the program and calls expect_refused().
  Result refuse(const std::string& arguments, const std::string& part, int ranks = 0, int code = 2) const;
  /// Runs two ranks with different lines of bash. (mpirun A : B crashes in Open MPI 5.0.)
  Result two_ranks(const std::string& first_line, const std::string& second_line) const;

  void write(const std::string& name, const std::string& text) const;
  std::string read(const std::string& name) const;
  bool exists(const std::string& name) const;
  std::string path(const std::string& name) const { return (folder_ / "w" / name).string(); }
  /// Returns the number of events `name` in the log of a run.
  int events(const std::string& name, const std::string& run = "small") const;
  /// Returns all files below the folder, sorted.
  std::vector<std::string> files() const;

  /// Creates data.h5, and small.yaml, which trains on it in less than a second.
  void make_small_run(int users = 200) const;
  /// Trains the run `small` with `command`, as "$PROGRAM small.yaml", until it is stopped: removes an earlier
  /// run, waits for the first epoch, at most 20 seconds, runs the bash code `then`, in which $job is the
  /// command, and last prints "code" and the exit code of the command.
  Result interrupted(const std::string& command, const std::string& then) const;

 private:
  /// Runs a line of bash with standard output to the file `out`.
  Result run(const std::string& line, int seconds, const std::string& out) const;

  testing::TemporaryFolder temporary_;
  const std::filesystem::path& folder_ = temporary_.path();
};

/// A test with an empty folder.
class ProgramTest : public ::testing::Test {
 protected:
  const TempWorkspace workspace;
};

/// A test with the files of make_small_run().
class SmallRun : public ProgramTest {
 protected:
  SmallRun() { workspace.make_small_run(); }
};

/// A test with a trained small run.
class TrainedRun : public SmallRun {
 protected:
  TrainedRun() { workspace.succeed("small.yaml --train --quiet"); }
};

/// Expects exit code `code`, no output, and one error message that contains `part`.
void expect_refused(const Result& result, const std::string& part, int code = 2);

/// One line of recommendations.
struct Recommended {
  std::string user;
  std::string item;
  double score = 0.0;
};

/// Parses the TSV output of `recommend`.
std::vector<Recommended> lines_of(const std::string& tsv);

/// Bash code that waits until the small run has finished an epoch, at most 20 seconds.
inline const std::string until_first_epoch =
    "for i in $(seq 400); do grep -q '\"epoch\"' runs/small/metrics.jsonl 2>/dev/null && break; sleep 0.05; "
    "done\n";

/// Returns the number of non-overlapping occurrences of `part`.
int count(const std::string& text, const std::string& part);

/// Returns ratings in the format movielens_csv: six of each user, all positive.
std::string made_ratings(int users);

/// Exports the best checkpoint of a run to m.onnx and m.safetensors, and compares `scores` scores of the
/// users in new.csv, by the ONNX reference evaluator and by the code of docs/EXPORT.md, with those in
/// top.tsv; `input`: table of user features or empty. If Python has no onnx, skips the test; with
/// VAECF_REQUIRE_EXTRAS=1 that is a failure.
void expect_same_scores(const TempWorkspace& workspace, const std::string& run, const std::string& input,
                        int scores);

}  // namespace vaecf::app
