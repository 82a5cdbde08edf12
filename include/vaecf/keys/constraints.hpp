#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/io/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

// The constraints on values of keys, as functions of values and as JSON Schema.
namespace vaecf::keys {

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

}  // namespace vaecf::keys
