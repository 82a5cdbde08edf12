#pragma once

#include <vaecf/base/views.hpp>

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

/// Reads lines `user,item` or `user<TAB>item`, users in order of first appearance; further columns, a header
/// line and repeated lines are allowed. InputError with file and line otherwise, and where no line is there.
Histories read_histories(const std::string& path, const ItemNames& items);

}  // namespace vaecf::app
