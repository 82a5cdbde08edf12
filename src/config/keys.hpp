#pragma once

#include <vaecf/base/enum_names.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/math/metrics.hpp>
#include <vaecf/models/models.hpp>
#include <vaecf/models/network_shape.hpp>

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace vaecf::config {

/// One key of the configuration: the only definition of its name, type, description and limits.
struct Key {
  std::string path;       ///< dotted: "train.batch_size"
  std::string doc;        ///< description, one line
  std::string type_name;  ///< name of its type: "an integer"
  std::string rule;       ///< limits of its value: "at least 1", "one of a, b"; empty: none
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

/// Returns whether a model of type `type` uses the key `path`. Baselines use model.ease.* and
/// model.item_knn.*.
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

/// Returns the node as quoted in error messages, truncated: "many", [1, 2], a section of keys, nothing.
std::string quote(const YAML::Node& node);

// Helpers of the table of keys.

/// A constraint on values, with its description in error messages and in reference_yaml().
template <class Accepts>
struct Constraint {
  std::string description;
  Accepts accepts;  ///< bool(value)
};
template <class Accepts>
Constraint(std::string, Accepts) -> Constraint<Accepts>;

template <class Number>
auto at_least(Number low) {
  return Constraint{format("at least {}", low), [low](auto value) { return value >= low; }};
}

template <class Number>
auto between(Number low, Number high) {
  return Constraint{format("between {} and {}", low, high),
                    [low, high](auto value) { return value >= low && value <= high; }};
}

inline auto positive() {
  return Constraint{"greater than 0", [](double value) { return value > 0; }};
}

inline auto mixture_of(std::size_t components) {
  return Constraint{format("{} numbers greater than 0 with sum 1", components),
                    [components](const std::vector<double>& weights) {
                      const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
                      return weights.size() == components && std::abs(sum - 1.0) < 1e-6 &&
                             std::ranges::all_of(weights, [](double weight) { return weight > 0.0; });
                    }};
}

inline auto below_one() {
  return Constraint{"at least 0 and below 1", [](double value) { return value >= 0 && value < 1; }};
}

// Accepts in fp32, too, the precision of weight updates.
inline auto fp32_positive() {
  return Constraint{"greater than 0, in fp32 too",
                    [](double value) { return static_cast<float>(value) > 0.0F; }};
}

inline auto fp32_below_one() {
  return Constraint{"at least 0 and below 1, in fp32 too",
                    [](double value) { return value >= 0 && static_cast<float>(value) < 1.0F; }};
}

/// Limits the norm such that its square is a finite, normal fp32 number.
inline auto clip_norm() {
  return Constraint{"0, or between 1e-15 and 1e15",
                    [](double norm) { return norm == 0.0 || (norm >= 1e-15 && norm <= 1e15); }};
}

inline auto one_of(const std::vector<std::string>& choices) {
  return Constraint{"one of " + join(choices), [choices](const std::string& value) {
                      return std::find(choices.begin(), choices.end(), value) != choices.end();
                    }};
}

inline auto not_empty() {
  return Constraint{"not empty", [](const std::string& value) { return !value.empty(); }};
}

/// The name of a run is also the name of its folder.
inline auto folder_name() {
  return Constraint{"a folder name without \"/\"", [](const std::string& value) {
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
  return Constraint{format("a list of one or more of {} (K at least 1), each once", math::metric_names()),
                    [](std::vector<std::string> names) {
                      std::sort(names.begin(), names.end());
                      return !names.empty() && std::all_of(names.begin(), names.end(), is_metric) &&
                             std::adjacent_find(names.begin(), names.end()) == names.end();
                    }};
}

inline auto selection() {
  return Constraint{format("a metric ({}) or last", math::metric_names()),
                    [](const std::string& name) { return name == "last" || is_metric(name); }};
}

/// Accepts a list of one or more values that `each` accepts.
template <class Accepts>
auto list_of(const Constraint<Accepts>& each) {
  return Constraint{"a number or a list of numbers, each " + each.description, [each](const auto& values) {
                      return !values.empty() && std::ranges::all_of(values, each.accepts);
                    }};
}

inline auto baseline_list() {
  return Constraint{"auto, or a list of popularity, item_knn and ease",
                    [](const std::vector<std::string>& names) {
                      const auto is_name = [](const std::string& name) {
                        const models::ModelFacts* facts = models::find_model(name);
                        return name == "popularity" || (facts != nullptr && facts->solved);
                      };
                      return names == std::vector<std::string>{"auto"} || std::ranges::all_of(names, is_name);
                    }};
}

inline auto two_quantiles() {
  return Constraint{"a list of two increasing numbers above 0 and below 1", [](const auto& values) {
                      return values.size() == 2 && values[0] > 0 && values[0] < values[1] && values[1] < 1;
                    }};
}

inline auto two_dates() {
  return Constraint{"a list of two increasing dates with the year first", [](const auto& dates) {
                      double first = 0.0;
                      double second = 0.0;
                      return dates.size() == 2 && data::parse_date(dates[0], first) &&
                             data::parse_date(dates[1], second) && first < second;
                    }};
}

inline auto widths() {
  return Constraint{format("a list of widths between 1 and {}, or []", models::max_layer_width),
                    [](const std::vector<std::int64_t>& values) {
                      return std::all_of(values.begin(), values.end(), [](auto width) {
                        return width >= 1 && width <= models::max_layer_width;
                      });
                    }};
}

/// Makes a key of the member that `field` returns a reference to.
template <class Field, class Accepts>
Key make_key(std::string path, Field field, Constraint<Accepts> constraint, std::string doc) {
  using T = std::remove_cvref_t<std::invoke_result_t<Field, Config&>>;
  // The cast is safe because the member is only read; one accessor serves both directions.
  const auto member = [field](const Config& config) -> const T& {
    return field(const_cast<Config&>(config));
  };
  return {.path = std::move(path),
          .doc = std::move(doc),
          .type_name = type_name<T>(),
          .rule = constraint.description,
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
