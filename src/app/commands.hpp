#pragma once

#include "app/command_line.hpp"
#include "app/outcome.hpp"

#include <string>
#include <vector>

namespace vaecf::app {

/// --train, --test, --benchmark on all ranks. `usage` is how reading argv ended: under a launcher it is
/// exchanged like everything else of the setup, so that one rank speaks for all.
ExitCode run_on_ranks(const CommandLine& line, const Outcome& usage);

/// On all ranks: `failed` where the doctor found something to be so.
ExitCode run_doctor(const CommandLine& line);

/// On all ranks, which share the users.
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
