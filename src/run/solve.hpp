#pragma once

#include <vaecf/run/run.hpp>
#include <vaecf/run/train.hpp>

#include <cstdint>
#include <string>

namespace vaecf::run {

/// Returns the numbers of solutions and evaluations after the first `done` ones.
std::string solutions_text(const Run& run, std::int64_t done = 0);
/// Checks that the model of the run, which is_solved(), can be solved. Throws InputError on the affected
/// ranks if it does not fit into memory, or if several solutions cannot be compared.
void validate_solve(const Run& run);

/// Returns whether a run continues the search whose best solution is run.resume_from: not if solutions
/// were selected by another metric, which is logged. Collective. Throws InputError on all ranks if the file
/// is not in the folder of the run.
[[nodiscard]] bool continues_solutions(const Run& run);

/// Solves the model of the run, which is_solved(): all combinations of the values of its keys, of which
/// the best by validation.select is written to best.h5. Writes metrics.jsonl and config.yaml as train() does.
/// With run.resume_from, does not solve again what the log and best.h5 contain. A request to stop ends a
/// solution, whose combination is solved again when the run continues. Collective. Throws InputError
/// for invalid input, RunError if the checkpoint could not be written.
TrainResult solve(const Run& run);

}  // namespace vaecf::run
