#pragma once

#include <vaecf/evaluate/evaluator.hpp>
#include <vaecf/run/run.hpp>
#include <vaecf/run/test.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::run {

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
