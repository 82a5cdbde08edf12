#pragma once

#include <vaecf/base/enum_names.hpp>
#include <vaecf/base/format.hpp>

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

/// Between a YAML node and a C++ value, stricter than yaml-cpp: no fractions for integers, no overflow, no
/// infinities. A value is a number, a text, true or false, an enumeration with names, or a list of these.
namespace vaecf::config {

struct WrongType {};
struct OutOfRange {
  std::string limit;  ///< e.g. "at most 2147483647"
};

template <class T>
concept List = std::same_as<T, std::vector<typename T::value_type>>;

/// Returns the node's text. Throws WrongType where it has none.
const std::string& scalar(const YAML::Node& node);
/// Returns the same as a text of the configuration, which has no zero byte: names of files would end there.
const std::string& read_text(const YAML::Node& node);

template <class T>
T read_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = end == text.data() + text.size();
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_floating_point_v<T>) {
    if (whole && error == std::errc::result_out_of_range) {
      throw OutOfRange{
          format("0, or a number between {:.3g} and {:.3g} in size", Limits::min(), Limits::max())};
    }
    if (!whole || error != std::errc{} || !std::isfinite(value)) throw WrongType{};
  } else {
    // A negative number where only positive ones fit is an integer all the same.
    const bool negative = std::is_unsigned_v<T> && text.size() > 1 && text[0] == '-' &&
                          text.find_first_not_of("0123456789", 1) == std::string_view::npos;
    if (negative || (whole && error == std::errc::result_out_of_range)) {
      throw OutOfRange{format("between {} and {}", Limits::lowest(), Limits::max())};
    }
    if (!whole || error != std::errc{}) throw WrongType{};
  }
  return value;
}

/// Throws WrongType or OutOfRange, which the caller turns into an error with a place.
template <class T>
T read_value(const YAML::Node& node) {
  if constexpr (List<T>) {
    if (!node.IsSequence()) throw WrongType{};
    T values;
    for (const auto& element : node) values.push_back(read_value<typename T::value_type>(element));
    return values;
  } else if constexpr (NamedEnum<T>) {
    const auto named = parse_enum<T>(read_text(node));
    if (!named) throw OutOfRange{"one of " + names_of<T>()};
    return *named;
  } else if constexpr (std::same_as<T, std::string>) {
    return read_text(node);
  } else if constexpr (std::same_as<T, bool>) {
    const std::string& text = scalar(node);
    if (text != "true" && text != "false") throw WrongType{};
    return text == "true";
  } else {
    return read_number<T>(scalar(node));
  }
}

/// Returns the text, in quotes where YAML would make something else of it.
std::string write_text(const std::string& text);
/// Returns the number with a point.
std::string write_fraction(double value);

template <class T>
std::string write_value(const T& value) {
  if constexpr (List<T>) {
    std::vector<std::string> texts;
    for (const auto& element : value) texts.push_back(write_value(element));
    return "[" + joined(texts) + "]";
  } else if constexpr (NamedEnum<T>) {
    return write_text(to_string(value));
  } else if constexpr (std::same_as<T, std::string>) {
    return write_text(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return write_fraction(value);
  } else {
    return format("{}", value);
  }
}

/// Returns what a key of this type wants: "an integer", "a list of texts" ...
template <class T>
std::string type_name() {
  if constexpr (List<T>)
    return std::is_integral_v<typename T::value_type> ? "a list of integers" : "a list of texts";
  if constexpr (std::same_as<T, bool>) return "true or false";
  if constexpr (std::is_integral_v<T>) return "an integer";
  return std::is_floating_point_v<T> ? "a number" : "a text";
}

/// Returns the node as an error message quotes it, cut short: "many", [1, 2], a section of keys, nothing.
std::string quote(const YAML::Node& node);

}  // namespace vaecf::config
