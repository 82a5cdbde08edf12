#pragma once

#include <string_view>

namespace vaecf::data {

/// Consumes the first character of `text` if it is one of `any_of`. Returns whether it was.
inline bool take(std::string_view& text, std::string_view any_of) {
  if (text.empty() || any_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace vaecf::data
