#pragma once

#include <vaecf/comm/communicator.hpp>
#include <vaecf/models/trainable_model.hpp>
#include <vaecf/run/run.hpp>

#include <memory>

namespace vaecf::run {

/// Opens data.file, and reads its fingerprint on one rank of each host, since all ranks together would read
/// gigabytes of a large dataset. Throws InputError if the key is not set or the file is not a dataset.
io::DatasetFile open_dataset(const config::TrainingConfig& options, const comm::Communicator& ranks);

/// Compares the fingerprints of one rank of each host, and sets the fingerprint of `dataset` on the others.
/// Collective. Throws InputError on all ranks if a host has another dataset than rank 0.
void share_fingerprint(comm::Communicator& ranks, io::DatasetFile dataset);

/// Throws InputError if `ranks` ranks are more than the configuration permits, as far as it determines that
/// without the dataset.
void validate_ranks(const config::TrainingConfig& options, int ranks);

/// Validates the run before any expensive work: configuration and dataset equal on all ranks, sizes, number
/// of ranks, if `writes`, run folder writable, and if `trains`, the model. Returns choose_item_slices().
/// Collective. Throws InputError or RunError; most errors are thrown on the affected ranks only, so the
/// caller must exchange the outcome.
int validate_run(const Run& run, bool trains = true, bool writes = true);

}  // namespace vaecf::run
