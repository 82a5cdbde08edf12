#pragma once

#include <vaecf/io/user_columns_file.hpp>
#include <vaecf/train/train.hpp>

#include "train/evaluate/evaluator.hpp"

namespace vaecf::train {

/// Returns the users of /test that have a target, in the order of the file: their ids (rows of /test if the
/// dataset has no ids), `history` and `targets` (numbers of items), `target_popularity` (mean number of train
/// users of the targets), and each metric that is a mean over users; those of features alone and of baselines
/// are in the groups `cold` and Baseline::name. `evaluator` must have made `result`. Equal on all ranks.
/// Collective.
io::UserColumns metrics_per_user(const TestResult& result, Evaluator& evaluator, const Run& run);

}  // namespace vaecf::train
