#pragma once

#include <vaecf/base/enum_names.hpp>

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Between a YAML node and a C++ value, stricter than yaml-cpp: no fractions for integers, no overflow, no
/// infinities. `read_value` throws WrongType or OutOfRange, which the caller turns into an error with a
/// place.
namespace vaecf::config {

struct WrongType {};
struct OutOfRange {
  std::string limit;  ///< e.g. "at most 2147483647"
};

void read_value(const YAML::Node& node, bool& value);
void read_value(const YAML::Node& node, int& value);
void read_value(const YAML::Node& node, std::int64_t& value);
void read_value(const YAML::Node& node, std::uint32_t& value);
void read_value(const YAML::Node& node, std::uint64_t& value);
void read_value(const YAML::Node& node, double& value);
void read_value(const YAML::Node& node, std::string& value);
void read_value(const YAML::Node& node, std::vector<std::int64_t>& value);
void read_value(const YAML::Node& node, std::vector<std::string>& value);

std::string write_value(bool value);
std::string write_value(int value);
std::string write_value(std::int64_t value);
std::string write_value(std::uint32_t value);
std::string write_value(std::uint64_t value);
std::string write_value(double value);
std::string write_value(const std::string& value);
std::string write_value(const std::vector<std::int64_t>& value);
std::string write_value(const std::vector<std::string>& value);

/// What a key of this type wants: "an integer", "a list of texts" ...
inline std::string type_name(bool) {
  return "true or false";
}
inline std::string type_name(int) {
  return "an integer";
}
inline std::string type_name(std::int64_t) {
  return "an integer";
}
inline std::string type_name(std::uint32_t) {
  return "an integer";
}
inline std::string type_name(std::uint64_t) {
  return "an integer";
}
inline std::string type_name(double) {
  return "a number";
}
inline std::string type_name(const std::string&) {
  return "a text";
}
inline std::string type_name(const std::vector<std::int64_t>&) {
  return "a list of integers";
}
inline std::string type_name(const std::vector<std::string>&) {
  return "a list of texts";
}

template <NamedEnum E>
void read_value(const YAML::Node& node, E& value) {
  std::string name;
  read_value(node, name);
  const auto named = parse_enum<E>(name);
  if (!named) throw OutOfRange{"one of " + names_of<E>()};
  value = *named;
}
template <NamedEnum E>
std::string write_value(E value) {
  return write_value(to_string(value));
}
template <NamedEnum E>
std::string type_name(E) {
  return "a text";
}

/// Returns the node as an error message quotes it, cut short: "many", [1, 2], a section of keys, nothing.
std::string quote(const YAML::Node& node);

}  // namespace vaecf::config
