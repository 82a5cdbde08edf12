#pragma once

#include <vaecf/comm/communicator.hpp>
#include <vaecf/models/tensors.hpp>
#include <vaecf/run/run.hpp>

#include <memory>

namespace vaecf::run {

/// Opens data.file. Throws InputError if the key is not set or the file is not a dataset.
io::DatasetFile open_dataset(const config::TrainingConfig& options);

/// Throws InputError if `ranks` ranks are more than the configuration permits, as far as it determines that
/// without the dataset.
void validate_ranks(const config::TrainingConfig& options, int ranks);

/// Validates the run before any expensive work: configuration equal on all ranks, dataset, sizes, number of
/// ranks, if `writes`, run folder writable, and if `trains`, the model. Returns choose_item_slices().
/// Collective. Throws InputError or RunError; most errors are thrown on the affected ranks only, so the
/// caller must exchange the outcome.
int validate_run(const Run& run, bool trains = true, bool writes = true);

}  // namespace vaecf::run
