#pragma once

#include "app/audience.hpp"

namespace vaecf::app {

/// People the model never saw: those of --input, with what `table` tells of them, where it has a path;
/// without
/// --input all of the table, who have nothing. InputError where a file is not as it must be, or the dataset
/// knows no features of users.
std::unique_ptr<Audience> make_newcomers(const RecommendArguments& arguments,
                                         const data::UsersTableOptions& table, const io::DatasetFile& dataset,
                                         const ItemNames& names, Log& log);

}  // namespace vaecf::app
