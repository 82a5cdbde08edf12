#pragma once

#include <vaecf/io/json.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Reading what programs have logged, our own metrics.jsonl above all.
namespace vaecf::io {

/// Nothing where `text` is no JSON.
std::optional<Json> parse_json(std::string_view text);

/// The lines of `path` that are JSON objects, in order; others (a torn last line) are passed over. InputError
/// where the file cannot be read.
std::vector<Json> read_json_lines(const std::string& path);

/// The field `key` of an object; null where `json` is no object or has none.
const Json* find(const Json& json, std::string_view key);
/// The same as a number or a text, or `otherwise` where it is none.
double number_at(const Json& json, std::string_view key, double otherwise = 0.0);
std::string text_at(const Json& json, std::string_view key, const std::string& otherwise = "");

}  // namespace vaecf::io
