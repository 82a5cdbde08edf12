#include <vaecf/io/checkpoint.hpp>

#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "app/process_fixture.hpp"

// Signals that arrive while threads compute. oneDNN's AVX2 GEMMs keep a heap address in the stack pointer for
// most of this model's step, so a handler on such a thread would overwrite heap data.
namespace vaecf::app {
namespace {

/// Creates data.h5 and small.yaml with few items and wide layers, so that nearly all of a step is spent in
/// oneDNN's GEMMs.
void make_run_of_products(const TempWorkspace& workspace) {
  workspace.make_small_run(1200);
  workspace.write("small.yaml",
                  "name: small\n"
                  "device: cpu\n"
                  "data: {file: data.h5}\n"
                  "model: {hidden: [1000, 600], latent: 200}\n"
                  "train: {epochs: 1000000, batch_size: 500, precision: fp32}\n"
                  "validation: {every: 1000000}\n");
}

const std::string two_avx2_threads = "export OMP_NUM_THREADS=2 ONEDNN_MAX_CPU_ISA=AVX2\n";

TEST(Signals, OnlyTheWaitingThreadDoesNotBlockThem) {
  const TempWorkspace workspace;
  make_run_of_products(workspace);
  // Prints, for each thread of each rank: its name and the masks of blocked and of caught signals.
  const Result result = workspace.bash(
      two_avx2_threads + "$MPIRUN -np 2 $PROGRAM small.yaml --train & job=$!\n" + until_first_epoch +
      "for status in $(for rank in $(pgrep -P $job); do ls /proc/$rank/task/*/status; done); do\n"
      "  awk '/^Name/ {$1 = \"\"; name = $0} /^SigBlk/ {blocked = $2} /^SigCgt/ {print blocked, $2 name}' "
      "$status\n"
      "done\n"
      "kill -USR1 $job; wait $job; echo \"code $?\"");
  EXPECT_EQ(count(result.out, "code 75"), 1) << result.out << result.err;
  const auto bit = [](int number) { return std::uint64_t{1} << (number - 1); };
  const std::uint64_t stop = bit(SIGUSR1) | bit(SIGTERM) | bit(SIGINT);
  // Open MPI handles faults in the thread that caused them; glibc reserves the first two real-time signals.
  const std::uint64_t harmless =
      bit(SIGSEGV) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGILL) | bit(SIGABRT) | bit(32) | bit(33);
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

TEST(Signals, SignalBurstDoesNotChangeWeights) {
  for (const std::string ranks : {"", "", "", "", "$MPIRUN -np 2 ", "$MPIRUN -np 2 "}) {
    const TempWorkspace workspace;
    make_run_of_products(workspace);
    // The signals go to the ranks, because mpirun cannot forward so many. Then the same steps run without
    // signals, with a checkpoint of each.
    const Result result = workspace.bash(
        two_avx2_threads + ranks + "$PROGRAM small.yaml --train --set run.checkpoint_every=0 & job=$!\n" +
        until_first_epoch +
        "targets=$(pgrep -P $job) || targets=$job\n"
        "for i in $(seq 20000); do kill -USR1 $targets 2>/dev/null || break; done\n"
        "wait $job; echo \"code $?\"\n"
        "mv runs/small stopped; file=$(ls stopped/checkpoints); echo $file\n" +
        ranks +
        "$PROGRAM small.yaml --train --set run.checkpoint_every.steps=1 --set run.keep=1000 & job=$!\n"
        "for i in $(seq 200); do [ -e runs/small/checkpoints/$file ] && break; sleep 0.05; done\n"
        "kill -USR1 $job; wait $job\n"
        "mv stopped/checkpoints/$file stopped.h5; mv runs/small/checkpoints/$file quiet.h5");
    ASSERT_EQ(count(result.out, "code 75\n"), 1) << result.out << result.err;
    const auto stopped = tensors(workspace.path("stopped.h5"));
    ASSERT_GT(stopped.size(), 0U);
    EXPECT_TRUE(stopped == tensors(workspace.path("quiet.h5"))) << result.out << result.err;
  }
}

}  // namespace
}  // namespace vaecf::app
