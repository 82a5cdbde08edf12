#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/comm/communicator.hpp>

#include <functional>
#include <string>

#include "app/command_line.hpp"

namespace vaecf::app {

/// The result of a task on this rank: success, or an exit code with the error message for the user.
struct TaskResult {
  ExitCode code = ExitCode::done;
  std::string message;
  bool on_all_ranks = false;  ///< every rank fails with the same message
  bool ok() const { return code == ExitCode::done; }
};

/// Runs `work` and converts an exception into a TaskResult. All exceptions are caught here.
TaskResult run_and_capture(const std::function<void()>& work);

/// Prints the error on one line of standard error, with the rank unless `rank` < 0.
void print_error(const TaskResult& outcome, int rank = -1);

/// Exchanges the outcomes of a phase of the setup. Collective. If it failed on any rank, the lowest failing
/// rank prints its error, and all ranks return its exit code; otherwise returns ExitCode::done.
ExitCode agree_on_result(comm::Communicator& communicator, const TaskResult& outcome);

/// Prints the error of this rank's work in `phase`, calls `at_failure` with the message, aborts all ranks,
/// and returns the exit code. Must be called with a failed outcome. If all ranks fail with the same message,
/// only rank 0 prints it; the others wait 5 seconds for it to abort them. If ranks fail independently, for
/// example with a loss that is not finite, higher ranks print later.
ExitCode abort_all_ranks(comm::Communicator& ranks, TaskResult outcome, const std::string& phase,
                         const std::function<void(const std::string& message)>& at_failure = {});

// The first three commands run on all ranks. They throw only if the ranks cannot be connected.

/// Runs --train, --test and --benchmark, and returns the exit code. `usage` is the outcome of parsing argv,
/// which the ranks exchange like every outcome of the setup, so that only one rank prints the error.
ExitCode run_on_ranks(const CommandLine& line, const TaskResult& usage);

/// Runs `doctor`. Returns ExitCode::failed if a check failed.
ExitCode run_doctor(const CommandLine& line);

/// Runs `recommend`, with the users distributed over the ranks.
ExitCode run_recommend(const CommandLine& line);

// The following commands run in a single process and throw on failure.
void run_prepare(const CommandLine& line);
void run_synthesize(const CommandLine& line);
void run_similar(const CommandLine& line);
void run_export(const CommandLine& line);
void run_inspect(const CommandLine& line);

/// Writes to standard output, escaped if it is a terminal, and flushes it. Throws RunError on failure, for
/// example on a full disk.
void print(const std::string& text);

}  // namespace vaecf::app
