#include "app/recommend/stream_request.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/text.hpp>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace vaecf::app {
namespace {

std::string shown(const io::Json& value) {
  return excerpt(io::dump(value));
}

/// Returns an id, a string or an integer, as text.
std::string id_text(const io::Json& value, const char* field) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_unsigned()) return std::to_string(value.get<std::uint64_t>());
  if (value.is_number_integer()) return std::to_string(value.get<std::int64_t>());
  throw InputError(format("{}: an id must be a string or an integer, got {}", field, shown(value)));
}

std::int64_t integer(const io::Json& value, const char* field, std::int64_t low, std::int64_t high) {
  const bool fits =
      value.is_number_integer() &&
      (!value.is_number_unsigned() || value.get<std::uint64_t>() <= static_cast<std::uint64_t>(high));
  if (fits && value.get<std::int64_t>() >= low && value.get<std::int64_t>() <= high)
    return value.get<std::int64_t>();
  throw InputError(
      format("{}: must be an integer between {} and {}, got {}", field, low, high, shown(value)));
}

const io::Json& list(const io::Json& value, const char* field) {
  if (!value.is_array()) throw InputError(format("{}: must be a list, got {}", field, shown(value)));
  return value;
}

/// Returns the columns of known ids, ascending and unique.
std::vector<std::int32_t> columns_of(const io::Json& ids, const char* field, const ItemNames& names,
                                     std::int64_t& unknown) {
  std::vector<std::int32_t> columns;
  for (const io::Json& id : list(ids, field)) {
    const std::int32_t column = names.find(id_text(id, field));
    if (column >= 0)
      columns.push_back(column);
    else
      ++unknown;
  }
  std::ranges::sort(columns);
  columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
  return columns;
}

/// Reads "items": ids, or lists of an id and its value. Of a repeated item the first value counts.
void read_items(const io::Json& items, const StreamFields& fields, StreamRequest& request) {
  std::vector<std::pair<std::int32_t, double>> found;
  for (const io::Json& entry : list(items, "items")) {
    const bool has_value = entry.is_array();
    if (has_value && (entry.size() != 2 || !entry[1].is_number())) {
      throw InputError(format("items: an item with a value must be [id, number], got {}", shown(entry)));
    }
    if (has_value && !fields.weights) {
      throw InputError(
          "items: the model was trained without interaction weights, so that items have no values");
    }
    const double weight = has_value ? data::weight_of(*fields.weights, entry[1].get<double>()) : 1.0;
    if (!data::is_weight(weight))
      throw InputError(format("items: the value of {} gives no weight above 0", shown(entry)));
    const std::int32_t column = fields.items.find(id_text(has_value ? entry[0] : entry, "items"));
    if (column < 0)
      ++request.unknown;
    else
      found.emplace_back(column, weight);
  }
  std::ranges::stable_sort(found, {}, &std::pair<std::int32_t, double>::first);
  found.erase(std::unique(found.begin(), found.end(),
                          [](const auto& a, const auto& b) { return a.first == b.first; }),
              found.end());
  std::vector<double> weights;
  for (const auto& [column, weight] : found) {
    request.items.push_back(column);
    weights.push_back(weight);
  }
  if (fields.weights) request.weights = data::divided_by_mean(weights);
}

/// Reads "user_features": values by column; a list of values sets the features of each.
void read_features(const io::Json& features, const StreamFields& fields, StreamRequest& request) {
  if (!features.is_object())
    throw InputError(format("user_features: must be an object, got {}", shown(features)));
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const auto& [name, values] : features.items()) {
    const auto add = [&, &name = name](const io::Json& value) {  // clang 14 captures no structured binding
      pairs.emplace_back(name, id_text(value, "user_features"));
    };
    if (values.is_array())
      std::ranges::for_each(values, add);
    else
      add(values);
  }
  request.features = fields.features.features_of(pairs);
}

}  // namespace

StreamRequest read_stream_request(std::string_view line, const StreamFields& fields, std::string& user) {
  if (line.size() > max_stream_line) throw InputError("the line is longer than 1 MiB");
  std::string problem;
  const io::Json object = io::parse_line(line, problem, max_stream_depth);
  if (!problem.empty()) throw InputError(problem);
  if (!object.is_object()) throw InputError(format("must be a JSON object, got {}", shown(object)));
  if (object.contains("user")) {
    const io::Json& id = object["user"];
    if (!id.is_string() && !id.is_number_integer())
      throw InputError("user: must be a string or an integer of 64 bits");
    user = io::dump(id);
  }
  StreamRequest request;
  request.user = user;
  for (const auto& [name, value] : object.items()) {
    if (name == "user") {  // is read
    } else if (name == "items") {
      read_items(value, fields, request);
    } else if (name == "user_features") {
      read_features(value, fields, request);
    } else if (name == "k") {
      request.k = integer(value, "k", 1, std::numeric_limits<std::int32_t>::max());
    } else if (name == "keep_seen") {
      if (!value.is_boolean())
        throw InputError(format("keep_seen: must be true or false, got {}", shown(value)));
      request.keep_seen = value.get<bool>();
    } else if (name == "exclude") {
      request.exclude = columns_of(value, "exclude", fields.items, request.unknown);
    } else if (name == "include") {
      request.include = columns_of(value, "include", fields.items, request.unknown);
    } else if (name == "reasons") {
      if (fields.max_reasons == 0 && value != 0)
        throw InputError("reasons: start the program with --reasons N, and a line may ask for up to N");
      request.reasons = integer(value, "reasons", 0, fields.max_reasons);
    } else {
      throw InputError(format(
          "{} is no field; the fields are user, items, user_features, k, keep_seen, exclude, include, reasons",
          excerpt(name)));
    }
  }
  return request;
}

}  // namespace vaecf::app
