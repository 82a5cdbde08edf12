#pragma once

#include "app/audience.hpp"

namespace vaecf::app {

/// Users that the model never saw: those of --input, read as `source` describes the data set, with their rows
/// of the table source.users if it has a path; without --input all users of the table, without items.
/// Throws InputError if a file is not as it must be, or the dataset knows no features of users.
std::unique_ptr<Audience> make_newcomers(const RecommendArguments& arguments,
                                         const data::SourceOptions& source, const io::DatasetFile& dataset,
                                         const ItemNames& names, Log& log);

}  // namespace vaecf::app
