#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/base/progress.hpp>
#include <vaecf/data/prepare.hpp>

#include "data/ratings_builder.hpp"

namespace vaecf::data {

/// Reads all lines of a source, in file order. Ids are integers, or strings where one of them is none. Lines
/// that cannot be read are dropped and told in `findings`, with `strict` an InputError (`file:line: 'text':
/// problem; what to do`). InputError for a source without events, and where more lines are dropped than read:
/// then it is of another format.
RawRatings read_ratings(const SourceOptions& source, const Wanted& wanted, Log& log, Progress& progress);

}  // namespace vaecf::data
