#pragma once

#include <vaecf/io/dataset_file.hpp>
#include <vaecf/train/evaluator.hpp>
#include <vaecf/train/train.hpp>

#include <cstdint>
#include <vector>

#include "train/item_models/item_model.hpp"

namespace vaecf::train {

/// Evaluates `model` on this rank's users with `threads` threads: targets are ranked among all items except
/// those of the fold-in, ties by ascending item. Collective.
EvaluationResult evaluate(Evaluator& evaluator, const ItemModel& model, std::int64_t items, int threads);

/// Computes the baselines that `options.validation.baselines` selects on the users of `evaluator`. The l2 and
/// dropout of EASE are chosen on the validation users, if there are several values and such users; otherwise
/// the first ones are used. Collective.
std::vector<Baseline> evaluate_baselines(const TrainingConfig& options, const io::DatasetFile& dataset,
                                         Evaluator& evaluator, const RunContext& context);

}  // namespace vaecf::train
