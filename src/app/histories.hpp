#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/data/prepare.hpp>

#include <string>
#include <vector>

#include "app/item_names.hpp"

namespace vaecf::app {

/// What users have, as the model reads it: one row per user, item columns ascending and unique.
struct Histories {
  std::vector<std::string> users;  ///< the source's own ids
  Csr seen;
  Strangers unknown;  ///< items that the model does not know, by line
};

/// Reads lines with a user and an item, in `source`'s columns or simply `user,item` or `user<TAB>item`; users
/// come in order of first appearance. Further columns and repeated lines are allowed. The first line may be a
/// header, as docs/DATA.md says. Throws InputError with file and line otherwise, and if there is no line.
Histories read_histories(const std::string& path, const data::SourceOptions& source, const ItemNames& items);

}  // namespace vaecf::app
