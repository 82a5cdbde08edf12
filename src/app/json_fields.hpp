#pragma once

#include <vaecf/base/text.hpp>
#include <vaecf/io/json.hpp>

#include <sstream>
#include <string>

namespace vaecf::app {

/// Returns the field of `json` that `path` names, with points for fields within others: "run.directory"; null
/// if there is none.
inline const io::Json* find_field(const io::Json& json, const std::string& path) {
  const io::Json* found = &json;
  std::istringstream names(path);
  for (std::string name; std::getline(names, name, '.');) {
    if (!found->is_object()) return nullptr;
    const auto field = found->find(name);
    if (field == found->end()) return nullptr;
    found = &*field;
  }
  return found;
}

/// Returns a value on one line: a string without quotes, anything else as JSON.
inline std::string line_of(const io::Json& value) {
  return value.is_string() ? escape(value.get<std::string>(), "") : io::dump(value);
}

}  // namespace vaecf::app
