#pragma once

#include "support/messages.hpp"
#include "support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

/// The real program, called as a user calls it.
namespace vaecf::app {

struct Result {
  int code = -1;  ///< 124: it ran past its time
  std::string out;
  std::string err;
};

/// A folder of its own for one test, and the program run inside it. The folder goes with the object.
class Workplace {
 public:
  Workplace();

  /// Runs a line of bash in the folder; $PROGRAM is the program, $MPIRUN starts ranks on shared cores.
  Result bash(const std::string& line, int seconds = 60) const;
  /// Runs the program with these arguments.
  Result program(const std::string& arguments) const { return bash("$PROGRAM " + arguments); }
  /// Does so, on some ranks where it is told how many, and expects that it ends with 0.
  Result succeed(const std::string& arguments, int ranks = 0) const;
  Result ranks(int count, const std::string& arguments) const;
  /// Two ranks that do different things. (mpirun A : B would say so, but ends in a crash as of Open MPI 5.0.)
  Result two_ranks(const std::string& first_line, const std::string& second_line) const;

  void write(const std::string& name, const std::string& text) const;
  std::string read(const std::string& name) const;
  bool exists(const std::string& name) const;
  std::string path(const std::string& name) const { return (folder_ / "w" / name).string(); }
  /// Every file below the folder, sorted.
  std::vector<std::string> files() const;

  /// data.h5, and small.yaml that trains on it in a blink.
  void make_small_run(int users = 200) const;

 private:
  testing::TemporaryFolder temporary_;
  const std::filesystem::path& folder_ = temporary_.path();
};

class ProgramTest : public ::testing::Test {
 protected:
  const Workplace place;
};

/// A small run can be made.
class SmallRun : public ProgramTest {
 protected:
  SmallRun() { place.make_small_run(); }
};

/// A small run was trained.
class TrainedRun : public SmallRun {
 protected:
  TrainedRun() { place.succeed("small.yaml --train --quiet"); }
};

/// Expects that the program ended with `code` and one message, which holds `part`.
void expect_refused(const Result& result, const std::string& part, int code = 2);

struct Recommended {
  std::string user;
  std::string item;
  double score = 0.0;
};

/// The lines of what `recommend` wrote as TSV.
std::vector<Recommended> lines_of(const std::string& tsv);

/// Bash: waits until the small run has finished an epoch, 20 seconds at most.
inline const std::string until_first_epoch =
    "for i in $(seq 200); do grep -q '\"epoch\"' runs/small/metrics.jsonl 2>/dev/null && break; sleep 0.1; "
    "done\n";

int count(const std::string& text, const std::string& part);

/// Ratings of `users` users in the format movielens_csv, six each, all of them high.
std::string made_ratings(int users);

/// Compares the scores of m.onnx with those of top.tsv, for the users of `input`; skips the test where no
/// Python has onnx.
void expect_same_scores(const Workplace& place, const std::string& input, int scores);

}  // namespace vaecf::app
