// Recommendations of any program, read from a file.
#pragma once

#include <vaecf/evaluate/evaluator.hpp>
#include <vaecf/io/checkpoint.hpp>

#include <string>

#include "app/recommend/item_names.hpp"

namespace vaecf::app {

/// The lists in a file for the users of a split.
struct ListFile {
  evaluate::Lists lists;       ///< one list per user of the split
  std::string order;           ///< how the places are sorted: "by rank", "by score" or "as in the file"
  UnknownNames unknown_items;  ///< counted by place
  UnknownNames unknown_users;  ///< counted by user
};

/// Reads lists from a file that `recommend` has written (.jsonl, .json, .h5, .hdf5), or from a table, TSV or
/// CSV, with a user and an item in each line, and perhaps a rank or a score. `users`, `items`: ids of the
/// users of the split, which `split` names, and of the items of the dataset. Throws InputError, with file and
/// line, if a line is malformed, a user has an item twice, or no user or no item is known.
ListFile read_lists(const std::string& path, const std::string& split, const io::IdList& users,
                    const io::IdList& items);

}  // namespace vaecf::app
