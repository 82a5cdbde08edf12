#pragma once

#include <vaecf/io/json.hpp>

#include <string>

namespace vaecf::config {

/// Returns a JSON Schema (draft 7) of a configuration file, for editors: sections, types, limits,
/// descriptions and defaults of all keys. It lacks most constraints between keys, and names of keys with
/// dots.
std::string schema_json();

/// Returns a configuration of dump() as JSON.
io::Json to_json(const std::string& text);

}  // namespace vaecf::config
