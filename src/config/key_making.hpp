#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/math/metrics.hpp>

#include "config/keys.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

/// What the tables of keys are written with.
namespace vaecf::config {

template <class T>
struct Rule {
  std::string text;
  std::function<bool(const T&)> holds;
};

/// A function that maps a configuration to one of its fields: FIELD(session.train.epochs).
#define FIELD(path)         \
  [](Config & c) -> auto& { \
    return c.path;          \
  }

/// `field` is a FIELD.
template <class Field, class T = std::remove_cvref_t<std::invoke_result_t<Field, Config&>>>
Key make_key(std::string path, Field field, std::string doc, std::type_identity_t<Rule<T>> rule = {}) {
  Key key;
  key.path = std::move(path);
  key.doc = std::move(doc);
  key.wants = type_name(T{});
  key.rule = rule.text;
  if constexpr (NamedEnum<T>) key.rule = "one of " + names_of<T>();
  key.read = [field, rule](Config& config, const YAML::Node& node) {
    T value{};
    read_value(node, value);
    if (rule.holds && !rule.holds(value)) throw OutOfRange{rule.text};
    field(config) = std::move(value);
  };
  // The field is only looked at: one accessor serves both directions.
  key.write = [field](const Config& config) { return write_value(field(const_cast<Config&>(config))); };
  return key;
}

/// One of several ways to give an amount: see Key::one_of_section.
template <class Field, class T = std::remove_cvref_t<std::invoke_result_t<Field, Config&>>>
Key make_alternative(std::string path, Field field, std::string doc, std::type_identity_t<Rule<T>> rule) {
  Key key = make_key(std::move(path), field, std::move(doc), std::move(rule));
  key.one_of_section = key.path.substr(0, key.path.rfind('.') + 1);
  key.clear = [field](Config& config) { field(config) = {}; };
  key.given = [field](const Config& config) { return field(const_cast<Config&>(config)) != 0; };
  return key;
}

template <class T>
Rule<T> at_least(T low) {
  return {format("at least {}", low), [low](const T& value) { return value >= low; }};
}

template <class T>
Rule<T> between(T low, T high) {
  return {format("between {} and {}", low, high),
          [low, high](const T& value) { return value >= low && value <= high; }};
}

inline Rule<double> positive() {
  return {"greater than 0", [](double value) { return value > 0; }};
}

inline Rule<double> fraction_below_one() {
  return {"at least 0 and below 1", [](double value) { return value >= 0 && value < 1; }};
}

inline Rule<std::string> one_of(std::vector<std::string> choices) {
  std::string text = "one of ";
  for (std::size_t i = 0; i < choices.size(); ++i) text += (i == 0 ? "" : ", ") + choices[i];
  return {text, [choices = std::move(choices)](const std::string& value) {
            return std::find(choices.begin(), choices.end(), value) != choices.end();
          }};
}

inline Rule<std::string> not_empty() {
  return {"not empty", [](const std::string& value) { return !value.empty(); }};
}

/// A run's name becomes a folder's.
inline Rule<std::string> folder_name() {
  return {"a folder name without \"/\"", [](const std::string& value) {
            return !value.empty() && value != "." && value != ".." && value.find('/') == std::string::npos;
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

inline Rule<std::vector<std::string>> metric_list() {
  return {format("a list of one or more of {} (K at least 1), each once", math::metric_names()),
          [](const std::vector<std::string>& names) {
            std::vector<std::string> sorted = names;
            std::sort(sorted.begin(), sorted.end());
            return !names.empty() && std::all_of(names.begin(), names.end(), is_metric) &&
                   std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
          }};
}

inline Rule<std::string> selection() {
  return {format("a metric ({}) or last", math::metric_names()),
          [](const std::string& name) { return name == "last" || is_metric(name); }};
}

inline Rule<std::vector<std::int64_t>> widths() {
  return {"a list of widths of at least 1, or []", [](const std::vector<std::int64_t>& values) {
            return std::all_of(values.begin(), values.end(), [](std::int64_t width) { return width >= 1; });
          }};
}

using Keys = std::vector<Key>;
using i64 = std::int64_t;

template <class Field, class T = std::remove_cvref_t<std::invoke_result_t<Field, Config&>>>
void add(Keys& keys, const char* path, Field field, const std::string& doc,
         const std::type_identity_t<Rule<T>>& rule = {}) {
  keys.push_back(make_key(path, field, doc, rule));
}

template <class Field, class T = std::remove_cvref_t<std::invoke_result_t<Field, Config&>>>
void add_alternative(Keys& keys, const char* path, Field field, const std::string& doc,
                     const std::type_identity_t<Rule<T>>& rule) {
  keys.push_back(make_alternative(path, field, doc, rule));
}

// One table for each part of the configuration; together they are all_keys().
void add_data_keys(Keys& keys);
void add_model_keys(Keys& keys);
void add_train_keys(Keys& keys);
void add_run_keys(Keys& keys);
void add_machine_keys(Keys& keys);

}  // namespace vaecf::config
