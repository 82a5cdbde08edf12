#pragma once

#include <vaecf/base/enum_names.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/math/metrics.hpp>
#include <vaecf/model/network_shape.hpp>

#include <yaml-cpp/yaml.h>

#include <algorithm>
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

namespace vaecf::config {

/// One key of the configuration: the single place that says its name, type, meaning and limits.
struct Key {
  std::string path;   ///< dotted: "train.batch_size"
  std::string doc;    ///< what it means, one line
  std::string wants;  ///< its type: "an integer"
  std::string rule;   ///< its limits: "at least 1", "one of a, b"; empty: none
  /// Throws WrongType or OutOfRange; leaves the configuration alone then.
  std::function<void(Config&, const YAML::Node&)> read;
  std::function<std::string(const Config&)> write;
  std::function<bool(const Config&)> given;  ///< whether it is another than 0, or not empty
  std::function<void(Config&)> clear;        ///< sets it to 0, or makes it empty
  /// The amount's section, where it is one of several ways to give one: "run.checkpoint_every." Of these a
  /// layer gives one at most, and it replaces what the layer below gave. 0 is an amount that is not given.
  std::string one_of_section = {};
  bool stands_for_section = false;  ///< a plain value given to that section is this key's
};

/// Returns all keys in the order of dump and reference; keys of a section stand together.
std::vector<Key> all_keys();

/// Returns true if `path` is compared when a run goes on, or is a section with such a key.
bool decides_run(const std::string& path);

// Between a YAML node and a C++ value, stricter than yaml-cpp: no fractions for integers, no overflow, no
// infinities. A value is a number, a text, true or false, an enumeration with names, or a list of these.

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

// What the table of keys is written with.

/// A limit on values, with the words that an error and the reference use for it.
template <class Holds>
struct Check {
  std::string text;
  Holds holds;  ///< bool(value)
};
template <class Holds>
Check(std::string, Holds) -> Check<Holds>;

template <class Number>
auto at_least(Number low) {
  return Check{format("at least {}", low), [low](auto value) { return value >= low; }};
}

template <class Number>
auto between(Number low, Number high) {
  return Check{format("between {} and {}", low, high),
               [low, high](auto value) { return value >= low && value <= high; }};
}

inline auto positive() {
  return Check{"greater than 0", [](double value) { return value > 0; }};
}

inline auto below_one() {
  return Check{"at least 0 and below 1", [](double value) { return value >= 0 && value < 1; }};
}

// Also as the fp32 number that an update computes with.
inline auto fp32_positive() {
  return Check{"greater than 0, in fp32 too", [](double value) { return static_cast<float>(value) > 0.0F; }};
}

inline auto fp32_below_one() {
  return Check{"at least 0 and below 1, in fp32 too",
               [](double value) { return value >= 0 && static_cast<float>(value) < 1.0F; }};
}

/// The square of the norm is an fp32 number, too.
inline auto clip_norm() {
  return Check{"0, or between 1e-15 and 1e15",
               [](double norm) { return norm == 0.0 || (norm >= 1e-15 && norm <= 1e15); }};
}

inline auto one_of(const std::vector<std::string>& choices) {
  return Check{"one of " + joined(choices), [choices](const std::string& value) {
                 return std::find(choices.begin(), choices.end(), value) != choices.end();
               }};
}

inline auto not_empty() {
  return Check{"not empty", [](const std::string& value) { return !value.empty(); }};
}

/// A run's name becomes a folder's.
inline auto folder_name() {
  return Check{"a folder name without \"/\"", [](const std::string& value) {
                 return !value.empty() && value != "." && value != ".." &&
                        value.find('/') == std::string::npos;
               }};
}

inline bool is_metric(const std::string& name) {
  try {
    math::parse_metric(name);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

inline auto metric_list() {
  return Check{format("a list of one or more of {} (K at least 1), each once", math::metric_names()),
               [](std::vector<std::string> names) {
                 std::sort(names.begin(), names.end());
                 return !names.empty() && std::all_of(names.begin(), names.end(), is_metric) &&
                        std::adjacent_find(names.begin(), names.end()) == names.end();
               }};
}

inline auto selection() {
  return Check{format("a metric ({}) or last", math::metric_names()),
               [](const std::string& name) { return name == "last" || is_metric(name); }};
}

inline auto widths() {
  return Check{format("a list of widths between 1 and {}, or []", model::widest_layer),
               [](const std::vector<std::int64_t>& values) {
                 return std::all_of(values.begin(), values.end(),
                                    [](auto width) { return width >= 1 && width <= model::widest_layer; });
               }};
}

/// `field` maps a configuration to the key's member.
template <class Field, class Holds>
Key make_key(std::string path, Field field, Check<Holds> check, std::string doc) {
  using T = std::remove_cvref_t<std::invoke_result_t<Field, Config&>>;
  // The member is only looked at: one accessor serves both directions.
  const auto member = [field](const Config& config) -> const T& {
    return field(const_cast<Config&>(config));
  };
  return {.path = std::move(path),
          .doc = std::move(doc),
          .wants = type_name<T>(),
          .rule = check.text,
          .read =
              [=](Config& config, const YAML::Node& node) {
                T value = read_value<T>(node);
                if (!check.holds(value)) throw OutOfRange{check.text};
                field(config) = std::move(value);
              },
          .write = [=](const Config& config) { return write_value(member(config)); },
          .given = [=](const Config& config) { return member(config) != T{}; },
          .clear = [=](Config& config) { field(config) = T{}; }};
}

template <class Field>
Key make_key(std::string path, Field field, std::string doc) {
  using T = std::remove_cvref_t<std::invoke_result_t<Field, Config&>>;
  std::string names;
  if constexpr (NamedEnum<T>) names = "one of " + names_of<T>();
  return make_key(std::move(path), field, Check{names, [](const T&) { return true; }}, std::move(doc));
}

/// Makes `key` one of several ways to give the amount of its section; `plain`: the one that a plain value
/// means.
inline Key amount(Key key, bool plain = false) {
  key.one_of_section = key.path.substr(0, key.path.rfind('.') + 1);
  key.stands_for_section = plain;
  return key;
}

/// KEY(name, member of Config, check, description); a member of any value of its type has no check.
#define KEY(path, member, ...) \
  make_key(                    \
      path, [](Config & config) -> auto& { return config.member; }, __VA_ARGS__)

}  // namespace vaecf::config
