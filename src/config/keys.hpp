#pragma once

#include <vaecf/config/config.hpp>
#include <vaecf/math/metrics.hpp>
#include <vaecf/model/network_shape.hpp>

#include "config/value.hpp"

#include <cstdint>
#include <functional>
#include <string>
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

inline auto inside_unit_interval() {
  return Check{"greater than 0 and below 1", [](double value) { return value > 0 && value < 1; }};
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

/// One of several ways to give the amount of its section.
inline Key amount(Key key) {
  key.one_of_section = key.path.substr(0, key.path.rfind('.') + 1);
  return key;
}

/// The one of these that a plain value stands for.
inline Key plain_amount(Key key) {
  key.stands_for_section = true;
  return amount(std::move(key));
}

/// KEY(name, member of Config, check, description); a member of any value of its type has no check.
#define KEY(path, member, ...) \
  make_key(                    \
      path, [](Config & config) -> auto& { return config.member; }, __VA_ARGS__)

}  // namespace vaecf::config
