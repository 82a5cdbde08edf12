#pragma once

#include <vaecf/data/prepare.hpp>
#include <vaecf/io/checkpoint.hpp>

#include <stop_token>
#include <string>
#include <vector>

namespace vaecf::data {

/// What a dataset's attributes say about how it was made: everything that decides what is in it, but the
/// source's own bytes. Not the name: whoever asks for the same dataset under another one has it.
io::Attributes recipe(const SourceOptions& source, const PrepareOptions& options);

/// Returns whether a dataset with the attributes `found` was made by `recipe`, whatever its source.
bool made_by(const io::Attributes& found, const io::Attributes& recipe);

/// For the record: names, sizes and sha256 of `paths`. Reads all of them, unless `stop` says that nobody
/// wants to know any more.
std::string describe_sources(const std::vector<std::string>& paths, const std::stop_token& stop = {});

/// Returns the table stored in the intact dataset at `path` if it was made by `recipe` from `source_paths` as
/// they are now and is compressed as asked for; otherwise an empty string.
std::string stored_table(const std::string& path, const io::Attributes& recipe,
                         const std::vector<std::string>& source_paths, std::int64_t compression);

}  // namespace vaecf::data
