#pragma once

#include <vaecf/checkpoint/checkpoint_reader.hpp>
#include <vaecf/context/context.hpp>
#include <vaecf/models/item/item_model.hpp>
#include <vaecf/models/model.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace vaecf::checkpoint {

/// Reads the item model of a checkpoint with `items` items; every rank has all weights afterwards.
/// Collective. Throws InputError on all ranks if the checkpoint contains another type than `type`, its arrays
/// are not consistent, or the weights exceed the free memory.
std::shared_ptr<const models::ItemModel> read_item_model(CheckpointReader& reader, models::ModelType type,
                                                         std::int64_t items, const Context& context);

/// Returns the name and values of a solved model for tables, such as "EASE l2 500". Collective.
std::string solution_title(CheckpointReader& reader, const Context& context);

/// Reads the model of a checkpoint, of any type, for batches of up to `max_users` users. Collective. Throws
/// InputError on all ranks if it does not match `options`.
std::unique_ptr<models::Scorer> load_scorer(CheckpointReader& reader, const config::TrainingConfig& options,
                                            const models::InputDims& inputs, const Context& context,
                                            std::int64_t max_users);

}  // namespace vaecf::checkpoint
