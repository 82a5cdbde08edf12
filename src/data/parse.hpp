#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/base/progress.hpp>
#include <vaecf/data/prepare.hpp>

#include "data/ratings_builder.hpp"
#include "data/raw_ratings.hpp"
#include "data/source_files.hpp"

namespace vaecf::data {

/// Reads all lines of a source, in file order. Ids are integers, or strings where one of them is none. Lines
/// that cannot be read are dropped and told in `findings`, with `strict` an InputError (`file:line: 'text':
/// problem; what to do`). InputError for a source without events, and where more lines are dropped than read:
/// then it is of another format.
RawRatings read_ratings(const SourceOptions& source, const Wanted& wanted, Log& log, Progress& progress);

/// What read_ratings needs of the options.
Wanted wanted_of(const PrepareOptions& options, bool strict);

/// Whether events of a part of a source that is split already are asked for.
bool wants(const Wanted& wanted, Part part);

// One reader per kind of file, each for the files of one part of a source. `files` stands before the first.
void read_columns(const SourceOptions& source, const SourceFiles& of, Part part, io::SourceReader& files,
                  RatingsBuilder& to, Progress& progress);
void read_netflix(io::SourceReader& files, RatingsBuilder& to, Progress& progress);
void read_lists(const SourceOptions& source, const SourceFiles& of, Part part, io::SourceReader& files,
                RatingsBuilder& to, Progress& progress);
void read_boards(io::SourceReader& files, RatingsBuilder& to, Progress& progress);
void read_pro_sg(io::SourceReader& files, RatingsBuilder& to, Progress& progress);

}  // namespace vaecf::data
