#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/data/date.hpp>
#include <vaecf/io/json.hpp>
#include <vaecf/math/metrics.hpp>
#include <vaecf/models/models.hpp>
#include <vaecf/models/network_shape.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

// The constraints on values of keys, as functions of values and as JSON Schema.
namespace vaecf::config {

/// A constraint on values, with its description in error messages and in reference_yaml().
template <class Accepts>
struct Constraint {
  std::string description;
  Accepts accepts;                         ///< bool(value)
  io::Json schema = io::Json::object({});  ///< changes of type_schema(), as a JSON Merge Patch
};
template <class Accepts>
Constraint(std::string, Accepts) -> Constraint<Accepts>;
template <class Accepts>
Constraint(std::string, Accepts, io::Json) -> Constraint<Accepts>;

template <class Number>
auto at_least(Number low) {
  return Constraint{format("at least {}", low), [low](auto value) { return value >= low; },
                    io::Json{{"minimum", low}}};
}

template <class Number>
auto between(Number low, Number high) {
  return Constraint{format("between {} and {}", low, high),
                    [low, high](auto value) { return value >= low && value <= high; },
                    io::Json{{"minimum", low}, {"maximum", high}}};
}

inline io::Json schema_above_0() {
  return {{"exclusiveMinimum", 0}};
}

inline io::Json schema_below_1() {
  return {{"minimum", 0}, {"exclusiveMaximum", 1}};
}

/// Returns the patch for a list of `size` numbers with the schema `each`, which needs brackets.
inline io::Json schema_of_list(std::size_t size, const io::Json& each) {
  return {{"type", "array"}, {"minItems", size}, {"maxItems", size}, {"items", each}};
}

inline auto positive() {
  return Constraint{"greater than 0", [](double value) { return value > 0; }, schema_above_0()};
}

inline auto mixture_of(std::size_t components) {
  return Constraint{format("{} numbers greater than 0 with sum 1", components),
                    [components](const std::vector<double>& weights) {
                      const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
                      return weights.size() == components && std::abs(sum - 1.0) < 1e-6 &&
                             std::ranges::all_of(weights, [](double weight) { return weight > 0.0; });
                    },
                    schema_of_list(components, schema_above_0())};
}

inline auto below_one() {
  return Constraint{"at least 0 and below 1", [](double value) { return value >= 0 && value < 1; },
                    schema_below_1()};
}

// Accepts in fp32, too, the precision of weight updates.
inline auto fp32_positive() {
  return Constraint{"greater than 0, in fp32 too",
                    [](double value) { return static_cast<float>(value) > 0.0F; }, schema_above_0()};
}

inline auto fp32_below_one() {
  return Constraint{"at least 0 and below 1, in fp32 too",
                    [](double value) { return value >= 0 && static_cast<float>(value) < 1.0F; },
                    schema_below_1()};
}

/// Limits the norm such that its square is a finite, normal fp32 number.
inline auto clip_norm() {
  return Constraint{"0, or between 1e-15 and 1e15",
                    [](double norm) { return norm == 0.0 || (norm >= 1e-15 && norm <= 1e15); },
                    io::Json{{"anyOf", {{{"const", 0}}, {{"minimum", 1e-15}, {"maximum", 1e15}}}}}};
}

inline auto one_of(const std::vector<std::string>& choices) {
  return Constraint{"one of " + join(choices),
                    [choices](const std::string& value) {
                      return std::find(choices.begin(), choices.end(), value) != choices.end();
                    },
                    io::Json{{"type", "string"}, {"enum", choices}}};
}

inline auto not_empty() {
  return Constraint{"not empty", [](const std::string& value) { return !value.empty(); },
                    io::Json{{"minLength", 1}}};
}

/// The name of a run is also the name of its folder.
inline auto folder_name() {
  return Constraint{"a folder name without \"/\"",
                    [](const std::string& value) {
                      return !value.empty() && value != "." && value != ".." &&
                             value.find('/') == std::string::npos;
                    },
                    io::Json{{"pattern", "^(?!\\.{1,2}$)[^/]+$"}}};
}

inline bool is_metric(const std::string& name) {
  try {
    math::parse_metric(name);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

/// Returns the schema of a metric or one of the words `also`, which end with "|".
inline io::Json metric_schema(const std::string& also = "") {
  std::string pattern;
  for (const char letter : math::metric_names()) {
    if (letter == 'K')
      pattern += "[1-9][0-9]*";
    else if (letter != ' ')
      pattern += letter == ',' ? '|' : letter;
  }
  return {{"type", "string"}, {"pattern", "^(" + also + pattern + ")$"}};
}

inline auto metric_list() {
  return Constraint{format("a list of one or more of {} (K at least 1), each once", math::metric_names()),
                    [](std::vector<std::string> names) {
                      std::sort(names.begin(), names.end());
                      return !names.empty() && std::all_of(names.begin(), names.end(), is_metric) &&
                             std::adjacent_find(names.begin(), names.end()) == names.end();
                    },
                    io::Json{{"type", {"array", "string"}},
                             {"items", metric_schema()},
                             {"minItems", 1},
                             {"uniqueItems", true},
                             {"pattern", metric_schema()["pattern"]}}};
}

inline auto selection() {
  return Constraint{format("a metric ({}) or last", math::metric_names()),
                    [](const std::string& name) { return name == "last" || is_metric(name); },
                    metric_schema("last|")};
}

/// Accepts a list of one or more values that `each` accepts.
template <class Accepts>
auto list_of(const Constraint<Accepts>& each) {
  io::Json schema =
      each.schema;  // of a single number; the keywords of numbers and of lists do not affect each other
  schema.update(io::Json{{"items", each.schema}, {"minItems", 1}});
  return Constraint{
      "a number or a list of numbers, each " + each.description,
      [each](const auto& values) { return !values.empty() && std::ranges::all_of(values, each.accepts); },
      std::move(schema)};
}

inline auto baseline_list() {
  io::Json choices{"auto", "popularity"};
  for (const auto& [type, name] : enum_names<models::ModelType>)
    if (models::is_solved(type)) choices.push_back(name);
  return Constraint{"auto, or a list of popularity, item_knn and ease",
                    [](const std::vector<std::string>& names) {
                      const auto is_name = [](const std::string& name) {
                        const models::ModelFacts* facts = models::find_model(name);
                        return name == "popularity" || (facts != nullptr && facts->solved);
                      };
                      return names == std::vector<std::string>{"auto"} || std::ranges::all_of(names, is_name);
                    },
                    io::Json{{"type", {"array", "string"}},
                             {"items", {{"enum", choices}}},
                             {"if", {{"type", "string"}}},
                             {"then", {{"enum", choices}}}}};
}

inline auto two_quantiles() {
  return Constraint{"a list of two increasing numbers above 0 and below 1",
                    [](const auto& values) {
                      return values.size() == 2 && values[0] > 0 && values[0] < values[1] && values[1] < 1;
                    },
                    schema_of_list(2, {{"exclusiveMinimum", 0}, {"exclusiveMaximum", 1}})};
}

inline auto two_dates() {
  return Constraint{"a list of two increasing dates with the year first",
                    [](const auto& dates) {
                      double first = 0.0;
                      double second = 0.0;
                      return dates.size() == 2 && data::parse_date(dates[0], first) &&
                             data::parse_date(dates[1], second) && first < second;
                    },
                    schema_of_list(2, io::Json::object({}))};
}

inline auto widths() {
  return Constraint{format("a list of widths between 1 and {}, or []", models::max_layer_width),
                    [](const std::vector<std::int64_t>& values) {
                      return std::all_of(values.begin(), values.end(), [](auto width) {
                        return width >= 1 && width <= models::max_layer_width;
                      });
                    },
                    io::Json{{"items", {{"minimum", 1}, {"maximum", models::max_layer_width}}}}};
}

}  // namespace vaecf::config
