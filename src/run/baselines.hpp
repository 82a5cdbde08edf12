#pragma once

#include <vaecf/evaluate/evaluator.hpp>
#include <vaecf/models/kind.hpp>
#include <vaecf/run/run.hpp>
#include <vaecf/run/test.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::run {

/// Returns why a model with this cost is not a baseline of `auto` on ranks with `threads` threads in total
/// and `memory` bytes per rank: one solution takes more than 10^12 operations per thread, all `solutions`
/// take more than five times as many, or one takes more bytes than a quarter of the memory. Empty if none
/// holds, so the baselines do not depend on the load of the machine.
std::string obstacle_of_cost(const models::Cost& cost, std::int64_t solutions, std::int64_t threads,
                             double memory);

/// Computes the baselines that evaluation.baselines selects on the users of `evaluator`. Of several
/// solutions the best on the validation users is used, if there are such users; otherwise the first one.
/// Appends the baselines that `auto` leaves out to `left_out`, unless it is null. Collective.
std::vector<Baseline> evaluate_baselines(const Run& run, evaluate::Evaluator& evaluator,
                                         std::vector<LeftOut>* left_out = nullptr);

}  // namespace vaecf::run
