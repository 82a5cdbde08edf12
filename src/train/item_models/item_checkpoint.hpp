#pragma once

#include <vaecf/model/model.hpp>
#include <vaecf/train/train.hpp>

#include <cstdint>
#include <memory>
#include <string>

#include "train/checkpoint/training_state.hpp"
#include "train/item_models/item_model.hpp"

namespace vaecf::train {

/// Reads the item model of a checkpoint with `items` items; every rank has all weights afterwards.
/// Collective. Throws InputError on all ranks if the checkpoint contains another type than `type`, its arrays
/// are not consistent, or the weights exceed the free memory.
std::shared_ptr<const ItemModel> read_item_model(CheckpointReader& reader, model::ModelType type,
                                                 std::int64_t items, const RunContext& context);

/// Returns the name and values of a solved model for tables, such as "EASE l2 500". Collective.
std::string solution_title(CheckpointReader& reader, const RunContext& context);

/// Reads the model of a checkpoint, of any type, for batches of up to `max_users` users. Collective. Throws
/// InputError on all ranks if it does not match `options`.
std::unique_ptr<model::Scorer> load_scorer(CheckpointReader& reader, const TrainingConfig& options,
                                           const model::InputDims& inputs, const RunContext& context,
                                           std::int64_t max_users);

}  // namespace vaecf::train
