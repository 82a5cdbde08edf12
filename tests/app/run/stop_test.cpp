#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/json.hpp>

#include <csignal>
#include <cstdint>
#include <map>
#include <sstream>
#include <utility>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using Stop = SmallRun;
using Resume = SmallRun;

/// Expects that the run stopped on request, and that it can be resumed on `ranks` ranks.
void expect_stopped(const TempWorkspace& workspace, const Result& result, int ranks = 0) {
  expect_in(result.out, {"code 75"});
  EXPECT_EQ(count(result.err, "stopped on request after"), 1) << result.err;
  EXPECT_EQ(count(result.err, "vaecf_dist: "), 0) << result.err;
  EXPECT_EQ(count(workspace.read("runs/small/metrics.jsonl"), "\"reason\":\"stopped\""), 1);
  EXPECT_EQ(workspace.events("test"), 0);
  const int epochs = workspace.events("epoch") + 2;
  const Result again =
      workspace.succeed("small.yaml --resume auto --set train.epochs=" + std::to_string(epochs), ranks);
  EXPECT_EQ(count(again.err, "resuming from runs/small/checkpoints/"), 1) << again.err;
  EXPECT_EQ(workspace.events("epoch"), epochs);
  EXPECT_EQ(workspace.events("end"), 1);
  EXPECT_EQ(workspace.events("test"), 1);
}

/// Expects that a run on three ranks stops on `signal` to the processes `target`, and that two can resume it
/// without the settings.
void expect_stop_on(const TempWorkspace& workspace, const std::string& signal, const std::string& target,
                    const std::string& settings) {
  SCOPED_TRACE(signal + " to " + target + settings);
  expect_stopped(workspace,
                 workspace.interrupted("$MPIRUN -np 3 $PROGRAM small.yaml --test" + settings,
                                       "kill -" + signal + " " + target),
                 2);
}

TEST_F(Stop, Usr1ToMpirunReachesAllRanksWhichWriteTheirTimelines) {
  expect_stop_on(workspace, "USR1", "$job", " --timeline t.json");
  const auto trace = io::Json::parse(workspace.read("t.json"));
  std::map<std::pair<std::int64_t, std::string>, int> seen;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph").get<std::string>() == "X")
      ++seen[{event.at("pid").get<std::int64_t>(), event.at("name").get<std::string>()}];
  }
  // Waits and overlapped communication are recorded by the communicator.
  for (const char* name : {"loading", "steps", "loss", "all-reduce", "wait", "checkpoint"})
    for (int rank = 0; rank < 3; ++rank) EXPECT_GT((seen[{rank, name}]), 0) << name << " of rank " << rank;
}

// As from srun, which signals all ranks. The last one is a server.
TEST_F(Stop, SignalsToRanksStopAllRanks) {
  const std::string served = " --set distributed.strategy=parameter_server";
  expect_stop_on(workspace, "USR1", "$(pgrep -P $job | tail -n 1)", served);
  expect_stop_on(workspace, "TERM", "$(pgrep -P $job)",
                 served + " --set distributed.parameter_server.updates=asynchronous");
}

// The folder of the checkpoints is a file, so that the last one cannot be written.
TEST_F(Stop, SecondInterruptEndsTheAttemptsToWriteTheLastCheckpoint) {
  const Result result = workspace.interrupted(
      "$PROGRAM small.yaml --set validation.every=1000000 --set run.retry_seconds=1e9 2>job.err",
      "until [ -f runs/small/checkpoints ]; do rm -rf runs/small/checkpoints; : >runs/small/checkpoints; done "
      "2>/dev/null\n"
      "kill -INT $job\n"
      "for i in $(seq 400); do grep -q 'attempted again for up to 1e+09 seconds' job.err && break; sleep 0.05; "
      "done\n"
      "kill -0 $job && kill -INT $job");
  EXPECT_EQ(result.out, "code 130\n") << workspace.read("job.err");
  expect_in(workspace.read("job.err"),
            {"training was stopped, but its last checkpoint could not be written"});
}

// The configuration is read from a pipe, so that the request arrives before training begins.
TEST_F(Stop, BeforeTheFirstStep) {
  const Result result = workspace.bash(
      "mkfifo pipe.yaml; $PROGRAM pipe.yaml & job=$!\n"
      "blocks_usr1() { (( 0x$(awk '/^SigBlk/ { print $2 }' /proc/$job/status) >> 9 & 1 )); }\n"
      "for i in $(seq 200); do blocks_usr1 && break; sleep 0.1; done\n"
      "kill -TERM $job; cat small.yaml >pipe.yaml; wait $job; echo \"code $?\"");
  EXPECT_EQ(count(result.err, "stopped on request after 0 steps"), 1) << result.err;
  expect_stopped(workspace, result);
}

TEST_F(Stop, SecondRunInTheSameFolderIsAnError) {
  const Result result =
      workspace.interrupted("$PROGRAM small.yaml --quiet",
                            "$MPIRUN -np 2 $PROGRAM small.yaml --resume auto --quiet; echo \"second $?\"\n"
                            "$PROGRAM small.yaml --test --quiet > test.out; echo \"test $?\"\n"
                            "kill -USR1 $job");
  EXPECT_EQ(result.out, "second 3\ntest 0\ncode 75\n") << result.err;
  EXPECT_EQ(count(result.err, "runs/small: another run is using this folder (process "), 1) << result.err;
  workspace.succeed("small.yaml --train --quiet");
}

// Only rank 0 reads and writes checkpoints; the other ranks may be on hosts without access to them.
TEST_F(Resume, RunFolderOnRankZeroOnly) {
  workspace.bash("mkdir elsewhere; cp data.h5 small.yaml elsewhere");
  for (const std::string arguments :
       {"--train", "--train --resume auto", "--train --resume auto --set train.epochs=3", "--test"}) {
    const std::string call = "$PROGRAM small.yaml " + arguments;
    const Result result = workspace.two_ranks("exec " + call, "cd elsewhere && exec " + call);
    EXPECT_EQ(result.code, 0) << arguments << "\n" << result.err;
  }
  EXPECT_EQ(workspace.events("epoch"), 3);
  EXPECT_FALSE(workspace.exists("elsewhere/runs"));
}

TEST_F(Resume, StartsFromScratchOrSkipsADamagedCheckpointWithAWarning) {
  expect_in(workspace.succeed("small.yaml --train --resume auto").err,
            {"contains no valid checkpoint; starting from scratch"});
  workspace.bash(
      "rm runs/small/checkpoints/best.h5\n"
      "printf x | dd of=runs/small/checkpoints/epoch-0002.h5 bs=1 seek=3000 conv=notrunc 2>/dev/null");
  expect_in(workspace.succeed("small.yaml --resume auto").err,
            {"skipping unreadable checkpoint: runs/small/checkpoints/epoch-0002.h5: is damaged",
             "resuming from runs/small/checkpoints/epoch-0001.h5"});
}

TEST_F(Resume, DifferentConfigurationIsAnErrorOnAllRanks) {
  workspace.succeed("small.yaml --train");
  for (const int ranks : {1, 3})
    workspace.refuse("small.yaml --resume auto --set model.latent=9",
                     "epoch-0002.h5: trained with model.latent 8, but the configuration has 9", ranks);
  workspace.refuse("small.yaml --resume none.h5", "none.h5", 2);
  // Existing files are unchanged.
  EXPECT_TRUE(workspace.exists("runs/small/checkpoints/epoch-0002.h5"));
  EXPECT_EQ(workspace.events("epoch"), 2);
}

/// A test of signals that arrive while threads compute. The run has few items and wide layers, so that nearly
/// all of a step is spent in oneDNN's products, which with AVX2 keep a heap address in the stack pointer: a
/// handler on such a thread would overwrite heap data.
class Signals : public ProgramTest {
 protected:
  Signals() {
    workspace.make_small_run(1200);
    workspace.write("small.yaml",
                    "name: small\n"
                    "device: cpu\n"
                    "data: {file: data.h5}\n"
                    "model: {hidden: [1000, 600], latent: 200}\n"
                    "train: {epochs: 1000000, batch_size: 500, precision: fp32}\n"
                    "validation: {every: 1000000}\n");
  }

  const std::string program = "OMP_NUM_THREADS=2 ONEDNN_MAX_CPU_ISA=AVX2 ";
};

TEST_F(Signals, OnlyTheWaitingThreadDoesNotBlockThem) {
  // Prints, for each thread of each rank: its name and the masks of blocked and of caught signals.
  const Result result = workspace.interrupted(
      program + "$MPIRUN -np 2 $PROGRAM small.yaml",
      "for status in $(for rank in $(pgrep -P $job); do ls /proc/$rank/task/*/status; done); do\n"
      "  awk '/^Name/ {$1 = \"\"; name = $0} /^SigBlk/ {blocked = $2} /^SigCgt/ {print blocked, $2 name}' "
      "$status\n"
      "done\n"
      "kill -USR1 $job");
  expect_in(result.out, {"code 75"});
  const auto bit = [](int number) { return std::uint64_t{1} << (number - 1); };
  const std::uint64_t stop = bit(SIGUSR1) | bit(SIGTERM) | bit(SIGINT);
  // Open MPI and UCX handle faults in the thread that caused them, and UCX hangups, to attach a debugger;
  // glibc reserves the first two real-time signals.
  const std::uint64_t harmless =
      bit(SIGHUP) | bit(SIGSEGV) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGILL) | bit(SIGABRT) | bit(32) | bit(33);
  std::istringstream lines(result.out);
  int threads = 0;
  int waiting = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::uint64_t blocked = 0;
    std::uint64_t caught = 0;
    std::string name;
    if (!(fields >> std::hex >> blocked >> caught) || !std::getline(fields >> std::ws, name)) continue;
    ++threads;
    EXPECT_EQ(caught & ~harmless, 0U) << "a handler may run on a thread that computes: " << line;
    if (name == "stop signals") {
      ++waiting;  // signals that sigwait waits for are listed as not blocked
    } else {
      EXPECT_EQ(blocked & stop, stop) << line;
    }
  }
  EXPECT_EQ(waiting, 2) << result.out;
  EXPECT_GE(threads, 8) << "two ranks of two threads each, a watchdog and a thread that waits: "
                        << result.out;
}

/// Returns all tensors of a checkpoint: weights and moments.
std::vector<std::vector<float>> tensors(const std::string& path) {
  const io::CheckpointFile file(path);
  std::vector<std::vector<float>> all;
  for (const auto& tensor : file.tensors()) {
    all.emplace_back(static_cast<std::size_t>(tensor.rows * tensor.columns));
    file.read_rows(tensor.name, 0, tensor.rows, all.back());
  }
  return all;
}

TEST_F(Signals, SignalBurstDoesNotChangeWeights) {
  for (const std::string ranks : {"", "", "", "", "$MPIRUN -np 2 ", "$MPIRUN -np 2 "}) {
    // The signals go to the ranks, because mpirun cannot forward so many. Then the same steps run without
    // signals, with a checkpoint of each.
    const std::string command = program + ranks + "$PROGRAM small.yaml";
    const Result result =
        workspace.interrupted(command + " --set run.checkpoint_every=never",
                              "targets=$(pgrep -P $job) || targets=$job\n"
                              "for i in $(seq 20000); do kill -USR1 $targets 2>/dev/null || break; done");
    expect_in(result.out, {"code 75"});
    workspace.bash("mv runs/small stopped; file=$(ls stopped/checkpoints)\n" + command +
                   " --train --set run.checkpoint_every.steps=1 --set run.keep_checkpoints=1000 & job=$!\n"
                   "for i in $(seq 200); do [ -e runs/small/checkpoints/$file ] && break; sleep 0.05; done\n"
                   "kill -USR1 $job; wait $job\n"
                   "mv stopped/checkpoints/$file stopped.h5; mv runs/small/checkpoints/$file quiet.h5; "
                   "rm -r stopped");
    const auto stopped = tensors(workspace.path("stopped.h5"));
    ASSERT_GT(stopped.size(), 0U);
    EXPECT_TRUE(stopped == tensors(workspace.path("quiet.h5"))) << result.out << result.err;
  }
}

}  // namespace
}  // namespace vaecf::app
