#pragma once

#include <string>

#include "app/command_line.hpp"
#include "app/task_result.hpp"

namespace vaecf::app {

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
