#pragma once

#include <vaecf/io/dataset_file.hpp>
#include <vaecf/train/evaluator.hpp>
#include <vaecf/train/train.hpp>

#include <vector>

namespace vaecf::train {

/// Computes the baselines that `options.validation.baselines` selects on the users of `evaluator`. The l2 and
/// dropout of EASE are chosen on the validation users, if there are several values and such users; otherwise
/// the first ones are used. Collective.
std::vector<Baseline> evaluate_baselines(const TrainingConfig& options, const io::DatasetFile& dataset,
                                         Evaluator& evaluator, const RunContext& context);

}  // namespace vaecf::train
