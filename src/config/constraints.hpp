#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/data/date.hpp>
#include <vaecf/io/json.hpp>
#include <vaecf/keys/constraints.hpp>
#include <vaecf/math/metrics.hpp>
#include <vaecf/models/kind.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

// The constraints on values of single keys; general ones are in keys/constraints.hpp.
namespace vaecf::config {

/// The name of a run is also the name of its folder.
inline auto folder_name() {
  return keys::Constraint{"a folder name without \"/\"",
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
  return keys::Constraint{
      format("a list of one or more of {} (K at least 1), each once", math::metric_names()),
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
  return keys::Constraint{format("a metric ({}) or last", math::metric_names()),
                          [](const std::string& name) { return name == "last" || is_metric(name); },
                          metric_schema("last|")};
}

inline auto baseline_list() {
  std::vector<std::string> names = {"popularity"};
  for (const models::Kind* kind : models::all_kinds())
    if (models::is_solved(kind->type())) names.push_back(kind->name());
  io::Json choices{"auto"};
  for (const std::string& name : names) choices.push_back(name);
  const std::string all_but_last = join(std::vector<std::string>(names.begin(), names.end() - 1));
  return keys::Constraint{format("auto, or a list of {} and {}", all_but_last, names.back()),
                          [names](const std::vector<std::string>& values) {
                            return values == std::vector<std::string>{"auto"} ||
                                   std::ranges::all_of(values, [&](const std::string& name) {
                                     return std::ranges::count(names, name) > 0;
                                   });
                          },
                          io::Json{{"type", {"array", "string"}},
                                   {"items", {{"enum", choices}}},
                                   {"if", {{"type", "string"}}},
                                   {"then", {{"enum", choices}}}}};
}

inline auto two_quantiles() {
  return keys::Constraint{"a list of two increasing numbers above 0 and below 1",
                          [](const auto& values) {
                            return values.size() == 2 && values[0] > 0 && values[0] < values[1] &&
                                   values[1] < 1;
                          },
                          keys::schema_of_list(2, {{"exclusiveMinimum", 0}, {"exclusiveMaximum", 1}})};
}

inline auto two_dates() {
  return keys::Constraint{"a list of two increasing dates with the year first",
                          [](const auto& dates) {
                            double first = 0.0;
                            double second = 0.0;
                            return dates.size() == 2 && data::parse_date(dates[0], first) &&
                                   data::parse_date(dates[1], second) && first < second;
                          },
                          keys::schema_of_list(2, io::Json::object({}))};
}

inline auto widths() {
  return keys::Constraint{format("a list of widths between 1 and {}, or []", models::max_layer_width),
                          [](const std::vector<std::int64_t>& values) {
                            return std::all_of(values.begin(), values.end(), [](auto width) {
                              return width >= 1 && width <= models::max_layer_width;
                            });
                          },
                          io::Json{{"items", {{"minimum", 1}, {"maximum", models::max_layer_width}}}}};
}

}  // namespace vaecf::config
