#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <functional>
#include <string>

#include "app/command_line.hpp"
#include "app/recommend/input_files.hpp"

namespace vaecf::app {

/// The users who are to get recommendations, and what they have.
struct Audience {
  io::IdList users;         ///< the source's own ids
  std::string description;  ///< "test users of data.h5"
  /// What these users have: a row each, columns ascending and unique.
  std::function<Csr(Range users)> seen;
  /// What is known of them beside it, likewise; no rows if that is nothing.
  std::function<Csr(Range users)> features;
};

/// Returns users of the dataset by --split: "train", "validation", "test", with what the model may see of
/// them; "all" with all that is known of them, held-out items included, each user once. With --input: users
/// that the model never saw, read as `source` describes the data set, with their rows of the table
/// source.users if it has a path; with the table alone: all users of the table, without items. Throws
/// InputError if there are none, a file is not as it must be, or the dataset knows no features of users. The
/// dataset outlives the result.
Audience make_audience(const RecommendArguments& arguments, const data::SourceOptions& source,
                       const io::DatasetFile& dataset, const ItemNames& names, Log& log);

/// Returns the number of the user who has this id. Throws InputError if there is none.
std::int64_t find_user(const Audience& audience, const std::string& id);

/// Returns the ids at `path` of the file; the numbers 0 .. count-1 if it holds none.
io::IdList ids_or_numbers(const io::DatasetFile& file, const std::string& path, std::int64_t count);

}  // namespace vaecf::app
