#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/evaluate/evaluator.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/run/train.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::run {

/// Returns the bytes per host that a model of `type`, which is_solved(), takes while it is solved and
/// evaluated.
double memory_to_solve(models::ModelType type, const Run& run);
/// Checks that a model of `type`, which is_solved(), fits into memory. Throws InputError on the affected
/// ranks if it does not.
void require_memory_to_solve(models::ModelType type, const Run& run);
/// Checks that the model of the run, which is_solved(), can be solved. Throws InputError on the affected
/// ranks if it does not fit into memory, or if several values of model.ease cannot be compared.
void validate_solve(const Run& run);

/// Returns whether a run continues the search whose best solution is run.resume_from: not if solutions
/// were selected by another metric, which is logged. Collective. Throws InputError on all ranks if the file
/// is not in the folder of the run.
[[nodiscard]] bool continues_solutions(const Run& run);

/// Solves the model of the run, which is_solved(): all combinations of the values of model.ease, of which
/// the best by validation.select is written to best.h5. Writes metrics.jsonl and config.yaml as train() does.
/// With run.resume_from, does not solve again what the log and best.h5 contain. A request to stop ends a
/// solution, whose combination is solved again when the run continues. Collective. Throws InputError
/// for invalid input, RunError if the checkpoint could not be written.
TrainResult solve(const Run& run);

/// Returns why EASE is not a baseline of `auto` on ranks with `threads` threads in total and `memory` bytes
/// per rank: one solution takes more than 10^12 operations per thread, all `solutions` take more than four
/// times as many, or one takes more bytes than a quarter of the memory. Empty if none holds, so the baselines
/// do not depend on the load of the machine.
std::string cost_of_ease(std::int64_t items, std::int64_t neighbors, std::int64_t solutions,
                         std::int64_t threads, double memory);

/// Computes the baselines that validation.baselines selects on the users of `evaluator`. The values
/// of EASE are chosen on the validation users, if there are several and such users; otherwise the first ones
/// are used. Appends the baselines that `auto` leaves out to `left_out`, unless it is null.
/// Collective.
std::vector<Baseline> evaluate_baselines(const Run& run, evaluate::Evaluator& evaluator,
                                         std::vector<LeftOut>* left_out = nullptr);

}  // namespace vaecf::run
