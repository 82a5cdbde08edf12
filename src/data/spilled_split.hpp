#pragma once

#include <vaecf/base/progress.hpp>

#include "data/spilled_filter.hpp"
#include "data/split_writer.hpp"

namespace vaecf::data {

/// The same split as make_split() would make of the events that `filter` keeps of those on disk. Its rows go
/// straight `to` the dataset and are not in what is returned. Memory grows with users and items, and with a
/// bit for each held-out event of a strong split; the events are read twice more, and written once.
Split split_spilled(RawRatings& ratings, const SpilledFilter& filter, const PrepareOptions& options,
                    SplitWriter& to, Progress& progress);

}  // namespace vaecf::data
