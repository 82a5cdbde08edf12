#pragma once

#include <vaecf/base/enum_names.hpp>
#include <vaecf/base/log.hpp>
#include <vaecf/io/json.hpp>

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace YAML {
class Node;
}

// Conversions between YAML nodes and C++ values, stricter than yaml-cpp: no fractions for integers, no
// overflow, no infinities. A value is a number, a string, a boolean, an enumeration with names, or a list of
// these.
namespace vaecf::keys {

/// Thrown if a node does not have the type of its key.
struct WrongType {};
/// Thrown if a value is outside its limits.
struct OutOfRange {
  std::string limit;  ///< e.g. "at most 2147483647"
};

template <class T>
concept List = std::same_as<T, std::vector<typename T::value_type>>;

bool is_scalar(const YAML::Node& node);
/// Returns whether the node is `word`, where "null" is YAML's null.
bool is_word_node(const YAML::Node& node, std::string_view word);
/// Calls read(element) for each element of a list. Throws WrongType if the node is not a list.
void read_elements(const YAML::Node& node, const std::function<void(const YAML::Node&)>& read);
/// Calls read(node), for a scalar with the list of this scalar.
void read_as_list(const YAML::Node& node, const std::function<void(const YAML::Node&)>& read);
/// Returns the string of a scalar node. Throws WrongType if the node is not a scalar.
const std::string& scalar(const YAML::Node& node);
/// Returns the string of a scalar node. Throws WrongType if it is not a scalar, and OutOfRange if it contains
/// a zero byte, which would truncate file names.
const std::string& read_text(const YAML::Node& node);

/// Returns the word of a scalar or null node. For a switch, "on" and "yes" are "true", and "off" and "no" are
/// "false", as in YAML 1.1. Throws WrongType if it is another node.
std::string read_word(const YAML::Node& node, bool is_switch);
/// Returns null, true or false, or else `word` as a string.
io::Json schema_of_word(std::string_view word);

/// Returns whether values of T are true and false, or one of them, beside others.
template <NamedEnum T>
constexpr bool is_switch() {
  bool found = false;
  for (const auto& [value, name] : enum_names<T>)
    found = found || std::string_view(name) == "true" || std::string_view(name) == "false";
  return found;
}

/// Parses a number of type T. Throws WrongType if `text` is not such a number, and OutOfRange on overflow.
template <class T>
T read_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = end == text.data() + text.size();
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_floating_point_v<T>) {
    if (whole && error == std::errc::result_out_of_range)
      throw OutOfRange{format("0, or a number of magnitude {:.3g} to {:.3g}", Limits::min(), Limits::max())};
    if (!whole || error != std::errc{} || !std::isfinite(value)) throw WrongType{};
  } else {
    // A negative number for an unsigned type is an integer, but out of range.
    const bool negative = std::is_unsigned_v<T> && text.size() > 1 && text[0] == '-' &&
                          text.find_first_not_of("0123456789", 1) == std::string_view::npos;
    if (negative || (whole && error == std::errc::result_out_of_range))
      throw OutOfRange{format("between {} and {}", Limits::lowest(), Limits::max())};
    if (!whole || error != std::errc{}) throw WrongType{};
  }
  return value;
}

/// Converts a node to a T. Throws WrongType or OutOfRange; the caller adds the location to the message.
template <class T>
T read_value(const YAML::Node& node) {
  if constexpr (List<T>) {
    // A single number or name is a list of one; integers are lists of layer widths, which need brackets.
    using Element = typename T::value_type;
    if constexpr (!std::is_integral_v<Element>)
      if (is_scalar(node)) return {read_value<Element>(node)};
    T values;
    read_elements(node, [&](const YAML::Node& element) { values.push_back(read_value<Element>(element)); });
    return values;
  } else if constexpr (NamedEnum<T>) {
    const auto named = parse_enum<T>(read_word(node, is_switch<T>()));
    if (!named) throw OutOfRange{"one of " + names_of<T>()};
    return *named;
  } else if constexpr (std::same_as<T, std::string>) {
    return read_text(node);
  } else if constexpr (std::same_as<T, bool>) {
    const std::string text = read_word(node, true);
    if (text != "true" && text != "false") throw WrongType{};
    return text == "true";
  } else {
    return read_number<T>(scalar(node));
  }
}

/// Returns the string as YAML, in quotes if it would otherwise be read as another type.
std::string write_text(const std::string& text);
/// Returns the number as YAML, always with a decimal point.
std::string write_fraction(double value);

/// Returns the value as YAML that read_value() reads back.
template <class T>
std::string write_value(const T& value) {
  if constexpr (List<T>) {
    std::vector<std::string> texts;
    for (const auto& element : value) texts.push_back(write_value(element));
    return "[" + join(texts) + "]";
  } else if constexpr (NamedEnum<T>) {
    return to_string(value);
  } else if constexpr (std::same_as<T, std::string>) {
    return write_text(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return write_fraction(value);
  } else {
    return format("{}", value);
  }
}

/// Returns the name of the type for messages: "an integer", "a list of strings" ...
template <class T>
std::string type_name() {
  if constexpr (List<T>)
    return std::is_integral_v<typename T::value_type>         ? "a list of integers"
           : std::is_floating_point_v<typename T::value_type> ? "a list of numbers"
                                                              : "a list of strings";
  if constexpr (std::same_as<T, bool>) return "true or false";
  if constexpr (std::is_integral_v<T>) return "an integer";
  return std::is_floating_point_v<T> ? "a number" : "a string";
}

/// Returns the JSON Schema of a T. Editors read digits as a number, which is a string for the program if the
/// key has strings: a column may be named 3.
template <class T>
io::Json type_schema() {
  if constexpr (List<T>) {
    using Element = typename T::value_type;
    io::Json schema{{"type", io::Json::array({"array"})}, {"items", type_schema<Element>()}};
    if constexpr (std::is_floating_point_v<Element>) schema["type"].push_back("number");
    if constexpr (std::same_as<Element, std::string>) schema["type"].push_back("string");
    return schema;
  } else if constexpr (NamedEnum<T>) {
    io::Json names = io::Json::array();
    for (const auto& [value, name] : enum_names<T>) names.push_back(schema_of_word(name));
    return {{"enum", names}};
  } else if constexpr (std::same_as<T, std::string>) {
    return {{"type", {"string", "number"}}};
  } else if constexpr (std::same_as<T, bool>) {
    return {{"type", "boolean"}};
  } else if constexpr (std::is_floating_point_v<T>) {
    return {{"type", "number"}};
  } else {
    io::Json schema{{"type", "integer"}};
    using Limits = std::numeric_limits<T>;
    if (!std::same_as<T, std::int64_t>)
      schema.update(io::Json{{"minimum", Limits::min()}, {"maximum", Limits::max()}});
    return schema;
  }
}

}  // namespace vaecf::keys
