#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::app {

/// What users have, as the model reads it: one row per user, item columns ascending and unique.
struct Histories {
  std::vector<std::string> users;  ///< the source's own ids
  Csr seen;
  std::int64_t unknown_items = 0;        ///< lines whose item the model does not know
  std::int64_t users_without_items = 0;  ///< nothing known is left of them
};

/// Reads lines `user,item` or `user<TAB>item`, users in order of first appearance; a header line, CRLF, a
/// byte order mark, empty lines and repeated lines are allowed. `item_ids`: the items' ids by column.
/// InputError with file and line otherwise, and where no line is there.
Histories read_histories(const std::string& path, const io::IdList& item_ids);

/// The users of `split` ("train", "validation", "test") with what the model may see of them; only `user`
/// unless it is empty.
Histories split_histories(const io::DatasetFile& file, const std::string& split, const std::string& user);

/// The ids at `path` of the file; the numbers 0 .. count-1 where it holds none.
io::IdList ids_or_numbers(const io::DatasetFile& file, const std::string& path, std::int64_t count);

}  // namespace vaecf::app
