#pragma once

#include "app/command_line.hpp"
#include "app/outcome.hpp"

#include <string>

namespace vaecf::app {

// The first three run on all ranks, and throw only if these cannot be connected.

/// --train, --test, --benchmark. `usage` is how reading argv ended: under a launcher it is
/// exchanged like everything else of the setup, so that one rank speaks for all.
ExitCode run_on_ranks(const CommandLine& line, const Outcome& usage);

/// Returns `failed` where the doctor found something to be so.
ExitCode run_doctor(const CommandLine& line);

/// The ranks share the users.
ExitCode run_recommend(const CommandLine& line);

// The commands below need no ranks and throw where they fail.
void run_prepare(const CommandLine& line);
void run_synthesize(const CommandLine& line);
void run_export(const CommandLine& line);
void run_inspect(const CommandLine& line);
void run_scaling(const CommandLine& line);

/// Writes to standard output. RunError where nobody takes it (a full disk behind a redirection).
void print(const std::string& text);

}  // namespace vaecf::app
