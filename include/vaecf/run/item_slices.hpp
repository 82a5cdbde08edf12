#pragma once

#include <vaecf/comm/rank_grid.hpp>
#include <vaecf/config/training_config.hpp>
#include <vaecf/context/context.hpp>
#include <vaecf/models/kind.hpp>

#include <memory>

namespace vaecf::run {

/// Returns the number of item slices that distributed.item_slices selects for `work`; with `auto`, logs why.
/// Throws InputError if the ranks, the items or the model cannot be divided.
int choose_item_slices(const config::TrainingConfig& options, models::Workload work);

/// Divides the ranks into model-parallel groups. If `item_slices` differs between ranks, the largest counts.
/// Collective.
std::shared_ptr<const comm::RankGrid> divide_ranks(comm::Communicator& ranks, int item_slices);

}  // namespace vaecf::run
