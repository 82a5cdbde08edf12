#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/json.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace vaecf::io {

std::string to_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
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
    Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object()) lines.push_back(std::move(json));
  }
  return lines;
}

double number_at(const Json& json, std::string_view key, double otherwise) {
  const auto field = json.find(key);
  return field != json.end() && field->is_number() ? field->get<double>() : otherwise;
}

std::string text_at(const Json& json, std::string_view key, const std::string& otherwise) {
  const auto field = json.find(key);
  return field != json.end() && field->is_string() ? field->get<std::string>() : otherwise;
}

}  // namespace vaecf::io
