#pragma once

#include <vaecf/base/enum_names.hpp>
#include <vaecf/config/config.hpp>

#include <yaml-cpp/yaml.h>

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/constraints.hpp"

namespace vaecf::config {

/// One key of the configuration: the only definition of its name, type, description and limits.
struct Key {
  std::string path;       ///< dotted: "train.batch_size"
  std::string doc;        ///< description, one line
  std::string type_name;  ///< name of its type: "an integer"
  std::string rule;       ///< limits of its value: "at least 1", "one of a, b"; empty: none
  io::Json schema;        ///< type and limits of its value as JSON Schema
  /// Stores the node's value. Throws WrongType or OutOfRange, and then leaves the configuration unchanged.
  std::function<void(Config&, const YAML::Node&)> read;
  std::function<std::string(const Config&)> write;
  std::function<bool(const Config&)> is_set;  ///< returns whether the value is neither 0 nor empty
  std::function<void(Config&)> reset;         ///< sets the value to 0 or empty
  /// The section of mutually exclusive keys that this key belongs to: "run.checkpoint_every."; empty: none. A
  /// layer sets at most one of them, which clears the others of the layer below. 0 means not set.
  std::string exclusive_in = {};
  bool section_shorthand = false;  ///< a scalar value of that section sets this key
};

/// Returns all keys in the order of dump() and reference_yaml(); the keys of a section are adjacent.
std::vector<Key> all_keys();

/// Returns whether models of type `type` use the key `path`, perhaps with other values of other keys.
/// Baselines use model.ease.* and model.item_knn.*.
bool is_used(const std::string& path, models::ModelType type);

/// Returns whether `path` is a key that require_resumable() compares, or a section with such a key.
bool must_match_on_resume(const std::string& path);

// Conversions between YAML nodes and C++ values, stricter than yaml-cpp: no fractions for integers, no
// overflow, no infinities. A value is a number, a string, a boolean, an enumeration with names, or a list of
// these.

/// Thrown if a node does not have the type of its key.
struct WrongType {};
/// Thrown if a value is outside its limits.
struct OutOfRange {
  std::string limit;  ///< e.g. "at most 2147483647"
};

template <class T>
concept List = std::same_as<T, std::vector<typename T::value_type>>;

/// Returns the string of a scalar node. Throws WrongType if the node is not a scalar.
const std::string& scalar(const YAML::Node& node);
/// Returns the string of a scalar node. Throws WrongType if it is not a scalar, and OutOfRange if it contains
/// a zero byte, which would truncate file names.
const std::string& read_text(const YAML::Node& node);

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
    if constexpr (!std::is_integral_v<typename T::value_type>)
      if (node.IsScalar()) return {read_value<typename T::value_type>(node)};
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
    return write_text(to_string(value));
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
    for (const auto& [value, name] : enum_names<T>) names.push_back(name);
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

/// Returns the node as quoted in error messages, truncated: "many", [1, 2], a section of keys, nothing.
std::string quote(const YAML::Node& node);

// Helpers of the table of keys.

/// Makes a key of the member that `field` returns a reference to.
template <class Field, class Accepts>
Key make_key(std::string path, Field field, Constraint<Accepts> constraint, std::string doc) {
  using T = std::remove_cvref_t<std::invoke_result_t<Field, Config&>>;
  // The cast is safe because the member is only read; one accessor serves both directions.
  const auto member = [field](const Config& config) -> const T& {
    return field(const_cast<Config&>(config));
  };
  io::Json schema = type_schema<T>();
  schema.merge_patch(constraint.schema);
  return {.path = std::move(path),
          .doc = std::move(doc),
          .type_name = type_name<T>(),
          .rule = constraint.description,
          .schema = std::move(schema),
          .read =
              [=](Config& config, const YAML::Node& node) {
                T value = read_value<T>(node);
                if (!constraint.accepts(value)) throw OutOfRange{constraint.description};
                field(config) = std::move(value);
              },
          .write = [=](const Config& config) { return write_value(member(config)); },
          .is_set = [=](const Config& config) { return member(config) != T{}; },
          .reset = [=](Config& config) { field(config) = T{}; }};
}

/// Makes a key that accepts every value of its type.
template <class Field>
Key make_key(std::string path, Field field, std::string doc) {
  using T = std::remove_cvref_t<std::invoke_result_t<Field, Config&>>;
  std::string names;
  if constexpr (NamedEnum<T>) names = "one of " + names_of<T>();
  return make_key(std::move(path), field, Constraint{names, [](const T&) { return true; }}, std::move(doc));
}

/// Makes `key` one of the mutually exclusive keys of its section. `plain`: a scalar value of the section sets
/// it.
inline Key exclusive(Key key, bool plain = false) {
  key.exclusive_in = key.path.substr(0, key.path.rfind('.') + 1);
  key.section_shorthand = plain;
  return key;
}

/// KEY(name, member of Config, check, description); without `check`, every value of the type is valid.
#define KEY(path, member, ...) \
  make_key(                    \
      path, [](Config & config) -> auto& { return config.member; }, __VA_ARGS__)

}  // namespace vaecf::config
