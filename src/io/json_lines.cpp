#include <vaecf/io/json_lines.hpp>

#include "io/nlohmann_json.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace vaecf::io {
namespace {

Json from_nlohmann(const nlohmann::ordered_json& value) {
  switch (value.type()) {
    case nlohmann::ordered_json::value_t::boolean:
      return Json(value.get<bool>());
    case nlohmann::ordered_json::value_t::number_integer:
    case nlohmann::ordered_json::value_t::number_unsigned:
      return Json(value.get<std::int64_t>());
    case nlohmann::ordered_json::value_t::number_float:
      return Json(value.get<double>());
    case nlohmann::ordered_json::value_t::string:
      return Json(value.get<std::string>());
    case nlohmann::ordered_json::value_t::array: {
      Json list = Json::list();
      for (const auto& item : value) list.add(from_nlohmann(item));
      return list;
    }
    case nlohmann::ordered_json::value_t::object: {
      Json object = Json::object();
      for (const auto& [key, item] : value.items()) object.set(key, from_nlohmann(item));
      return object;
    }
    default:
      return {};
  }
}

}  // namespace

std::optional<Json> parse_json(std::string_view text) {
  const auto value = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return std::nullopt;
  return from_nlohmann(value);
}

std::vector<Json> read_json_lines(const std::string& path) {
  std::error_code missing;
  // A pipe would keep whoever opens it waiting.
  if (std::filesystem::exists(path, missing) && !std::filesystem::is_regular_file(path))
    throw InputError(format("{}: is not a regular file", path));
  std::ifstream file(path);
  if (!file) throw InputError(format("{}: cannot be read: {}", path, std::strerror(errno)));
  std::vector<Json> lines;
  for (std::string line; std::getline(file, line);) {
    auto json = parse_json(line);
    if (json && std::holds_alternative<Json::Fields>(json->value())) lines.push_back(*std::move(json));
  }
  return lines;
}

const Json* find(const Json& json, std::string_view key) {
  const auto* fields = std::get_if<Json::Fields>(&json.value());
  if (fields == nullptr) return nullptr;
  for (const auto& [name, value] : *fields) {
    if (name == key) return &value;
  }
  return nullptr;
}

double number_at(const Json& json, std::string_view key, double otherwise) {
  const Json* field = find(json, key);
  if (field == nullptr) return otherwise;
  if (const auto* whole = std::get_if<std::int64_t>(&field->value())) return static_cast<double>(*whole);
  if (const auto* number = std::get_if<double>(&field->value())) return *number;
  return otherwise;
}

std::string text_at(const Json& json, std::string_view key, const std::string& otherwise) {
  const Json* field = find(json, key);
  const auto* text = field == nullptr ? nullptr : std::get_if<std::string>(&field->value());
  return text == nullptr ? otherwise : *text;
}

}  // namespace vaecf::io
