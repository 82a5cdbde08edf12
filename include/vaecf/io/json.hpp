#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace vaecf::io {

/// A JSON value of nlohmann-json, whose objects keep the order of their fields.
using Json = nlohmann::ordered_json;

/// Returns the value on one line, or with `indent` >= 0 on many. Numbers that are no number become null,
/// bytes that are no UTF-8 U+FFFD.
std::string to_text(const Json& json, int indent = -1);

/// Returns the lines of `path` that are JSON objects, in order; others (a torn last line) are passed over.
/// Throws InputError if the file cannot be read.
std::vector<Json> read_json_lines(const std::string& path);

/// Returns the field `key` as a number or a text, or `otherwise` if it is none or `json` is no object.
double number_at(const Json& json, std::string_view key, double otherwise = 0.0);
std::string text_at(const Json& json, std::string_view key, const std::string& otherwise = "");

}  // namespace vaecf::io
