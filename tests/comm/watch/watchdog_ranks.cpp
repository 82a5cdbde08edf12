// Ranks that exchange numbers under a watchdog of short limits, until something happens to them.
// watchdog_ranks HOW RANK FOLDER: rank RANK does, at step 20, what HOW says. Each rank leaves its process
// number in FOLDER/RANK.pid, and FOLDER/going appears after about a second of steps.
#include <vaecf/comm/collective.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/mpi.hpp>
#include <vaecf/comm/watchdog.hpp>

#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace vaecf;

void pause_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

/// A file that is there has its text in it.
void leave(const std::filesystem::path& path, const std::string& text) {
  const std::string unfinished = path.string() + ".new";
  std::ofstream(unfinished) << text;
  std::filesystem::rename(unfinished, path);
}

struct Plan {
  std::string how;
  int rank = 0;
  std::filesystem::path folder;
};

void step(comm::Communicator& comm, std::vector<float>& values, std::int64_t number) {
  comm.activity().begin_step(number);
  comm.all_reduce(std::span<float>(values));
  const comm::Request request = comm.all_reduce_async(std::span<float>(values), {});
  pause_for(0.015);
  comm.wait(request);
}

int work(comm::Communicator& comm, const Plan& plan) {
  const std::string& how = plan.how;
  if (how == "bad_input") return 2;
  const bool chosen = comm.rank() == plan.rank;
  std::vector<float> values(1000, 0.0F);
  // Endless for a person who waits, but no orphan.
  const int steps = how == "endless" ? 4000 : how == "paused" ? 200 : 40;
  comm.activity().enter(how == "in_validation" ? Phase::validation : Phase::training);
  for (int t = 0; t < steps; ++t) {
    step(comm, values, t);
    if (t == 60 && comm.rank() == 0) leave(plan.folder / "going", "");
    if (t != 20 || !chosen) continue;
    if (how == "slow") pause_for(2.5);
    if (how == "hangs" || how == "no_threads" || how == "in_validation") pause_for(60.0);
    if (how == "fails") {
      std::fprintf(stderr, "own words\n");
      comm.abort(2);
    }
    // The other ranks do not join the all-reduce that this rank starts.
    if (how == "throws_in_collective") comm.all_reduce_async(std::span<float>(values), {});
    if (how.starts_with("throws")) throw std::runtime_error("own words");
  }
  return how == "stopped" ? 75 : 0;
}

struct MpiWithoutThreads {
  explicit MpiWithoutThreads(bool wanted) : on(wanted) {
    if (on) MPI_Init(nullptr, nullptr);
  }
  ~MpiWithoutThreads() {
    if (on) MPI_Finalize();
  }
  MpiWithoutThreads(const MpiWithoutThreads&) = delete;
  MpiWithoutThreads& operator=(const MpiWithoutThreads&) = delete;
  bool on;
};

}  // namespace

int main(int, char** argv) {
  // As the real program does: a launcher's TERM is a request.
  std::signal(SIGTERM, SIG_IGN);
  try {
    const Plan plan{argv[1], std::atoi(argv[2]), argv[3]};
    comm::DistributedOptions options;
    options.stall_warning = 1.0;
    options.timeout = 3.0;
    options.validation_timeout = 4.0;
    // Short only where it is to pass: where names are slow to resolve, MPI takes its time to join ranks.
    options.startup_timeout = plan.how == "never_starts" ? 3.0 : 30.0;
    const std::string rank = std::getenv("OMPI_COMM_WORLD_RANK");
    leave(plan.folder / (rank + ".pid"), std::to_string(getpid()) + "\n");
    if (plan.how == "never_starts" && rank == argv[2]) pause_for(60.0);
    const MpiWithoutThreads mpi(plan.how.starts_with("no_threads"));
    const auto comm = comm::make_mpi_communicator(options);
    const comm::Watchdog watchdog(*comm, options);
    return work(*comm, plan);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
