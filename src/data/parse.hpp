#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/base/progress.hpp>
#include <vaecf/data/prepare.hpp>

#include "data/events.hpp"

namespace vaecf::data {

/// Reads all lines of a source, in file order. Ids are integers, or strings where one of them is none.
/// InputError (`file:line: problem: text; what to do`) for missing columns, empty fields and ratings that
/// are no finite number, and for a file without events.
RawRatings read_ratings(const SourceOptions& source, double min_rating, Log& log, Progress& progress);

}  // namespace vaecf::data
