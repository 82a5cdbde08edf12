#include "app/recommend/histories.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/data/date.hpp>
#include <vaecf/models/model.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "app/recommend/item_names.hpp"
#include "app/recommend/user_item_columns.hpp"

namespace vaecf::app {
namespace {

using Position = std::optional<std::size_t>;

using Fields = std::vector<std::string_view>;

/// A value in the input, of one line.
struct InputValue {
  double value;
  std::int64_t line;
  double time;  ///< 0 without a column of times; infinity if it cannot be read
};

using InputValues = std::vector<std::vector<InputValue>>;

/// Returns the column `name` besides those of users and items, if the file has it. An index of data.source is
/// used where those of users and items are; `always`: it is used in any case.
Position find_other(const data::Table& first, const data::SourceLayout& layout, const UserItemColumns& found,
                    const std::string& name, bool always) {
  const Fields& fields = first.fields();
  const Position index = data::column_number(name);
  const auto at = found.header ? std::ranges::find(fields, name) : fields.end();
  Position position;
  if (!name.empty() && at != fields.end())
    position = static_cast<std::size_t>(at - fields.begin());
  else if (index < fields.size() && (always || (found.header == layout.table.header &&
                                                data::column_number(layout.user) == found.user &&
                                                data::column_number(layout.item) == found.item)))
    position = index;
  if (position == found.user || position == found.item) position.reset();
  return position;
}

/// Returns the column of the values: that of --interaction-weight-column, else the source's column of
/// ratings, if the file has it.
Position find_values(const data::Table& first, const data::SourceLayout& layout, const UserItemColumns& found,
                     const std::string& asked) {
  const Position position =
      find_other(first, layout, found, asked.empty() ? layout.rating : asked, !asked.empty());
  if (position || asked.empty()) return position;
  const Fields& fields = first.fields();
  throw InputError(format(
      "{}: there is no column '{}' besides those of users and items, which --interaction-weight-column names; found {}",
      first.location(), excerpt(asked), excerpt(join({fields.begin(), fields.end()}))));
}

/// Returns the time in a field. One that cannot be read is the last one, as in `prepare`.
double time_in(std::string_view field) {
  double time = 0.0;
  const bool known = (parse_number(field, time) && std::isfinite(time)) || data::parse_date(field, time);
  return known ? time : std::numeric_limits<double>::infinity();
}

/// Returns the positions of values in the order of their times.
std::vector<std::size_t> by_time(const std::vector<InputValue>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t k) { return values[k].time; });
  return order;
}

/// Combines the values of repeated items in `rows`, which then are unique, and returns their weights: the
/// transformed values divided by the mean of the row. `path`: of the file, for messages.
std::vector<std::vector<float>> weigh(std::vector<std::vector<std::int32_t>>& rows, const InputValues& values,
                                      const InputWeights& rules, const std::string& path) {
  std::vector<std::vector<float>> weights(rows.size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::unordered_map<std::int32_t, std::size_t> places;
    std::vector<std::int32_t> items;
    std::vector<InputValue> combined;
    for (const std::size_t k : by_time(values[r])) {
      const auto [place, is_new] = places.emplace(rows[r][k], items.size());
      if (is_new) {
        items.push_back(rows[r][k]);
        combined.push_back(values[r][k]);
        continue;
      }
      double& value = combined[place->second].value;
      const double next = values[r][k].value;
      if (rules.duplicates == data::DuplicateRule::last) value = next;
      if (rules.duplicates == data::DuplicateRule::sum) value += next;
      if (rules.duplicates == data::DuplicateRule::max) value = std::max(value, next);
    }
    std::vector<double> of_row;
    for (const InputValue& entry : combined) {
      of_row.push_back(data::weight_of(rules.transformation, entry.value));
      if (!data::is_weight(of_row.back()))
        throw InputError(format("{}:{}: the value {:g} gives no weight above 0; correct or remove the line",
                                path, entry.line, entry.value));
    }
    weights[r] = data::divided_by_mean(of_row);
    rows[r] = std::move(items);
  }
  return weights;
}

/// Returns the last different items of each row, as many as explain the scores of a network.
std::vector<std::vector<std::int32_t>> last_items(const std::vector<std::vector<std::int32_t>>& rows) {
  constexpr std::int64_t most = models::Reasons::max_left_out;
  std::vector<std::vector<std::int32_t>> last = rows;
  for (auto& row : last) {
    if (std::ssize(row) <= most) continue;
    std::unordered_set<std::int32_t> found;
    for (auto item = row.rbegin(); item != row.rend() && std::ssize(found) < most; ++item)
      found.insert(*item);
    row.assign(found.begin(), found.end());
  }
  return last;
}

}  // namespace

Csr sorted_rows(std::vector<std::vector<std::int32_t>> rows, const std::vector<std::vector<float>>& values) {
  Csr sorted;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::vector<std::int32_t>& columns = rows[r];
    std::vector<float> of_columns;
    if (!values.empty()) {
      std::vector<std::pair<std::int32_t, float>> pairs;
      for (std::size_t k = 0; k < columns.size(); ++k) pairs.emplace_back(columns[k], values[r][k]);
      std::ranges::stable_sort(pairs, {}, &std::pair<std::int32_t, float>::first);
      for (std::size_t k = 0; k < pairs.size(); ++k)
        if (k == 0 || pairs[k].first != pairs[k - 1].first) of_columns.push_back(pairs[k].second);
    }
    std::ranges::sort(columns);
    columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
    sorted.append({columns, of_columns});
  }
  return sorted;
}

Histories read_histories(const std::string& path, const data::SourceOptions& source, const ItemNames& items,
                         const InputWeights* weights) {
  const data::SourceLayout layout = data::source_layout(source);
  Histories histories;
  std::unordered_map<std::string, std::size_t> user_rows;
  std::vector<std::vector<std::int32_t>> rows;
  InputValues values;  // like `rows`, if there is a column of values
  UserItemColumns columns;
  Position value_column;
  Position time_column;
  const auto first = [&](data::Table& table) {
    if (table.fields().size() > 1) columns = find_columns(table, layout, items);
    if (weights != nullptr) value_column = find_values(table, layout, columns, weights->column);
    if (value_column) time_column = find_other(table, layout, columns, layout.time, false);
    if (value_column)
      histories.weights =
          columns.header ? excerpt(table.at(*value_column)) : format("{} (from 0)", *value_column);
    table.require(std::max({columns.user, columns.item, value_column.value_or(0), time_column.value_or(0)}));
    return columns.header;
  };
  const char* const for_array = "convert it: jq -r '.[] | [.user, .item] | @csv' FILE > lines.csv";
  read_rows(path, layout.table, for_array, first, [&](const data::Table& row) {
    if (row.problem() != nullptr || row.at(columns.user).empty() || row.at(columns.item).empty() ||
        row.is_missing(columns.user) || row.is_missing(columns.item)) {
      throw InputError(format(
          "{}: must have a user in column {} and an item in column {}{} (from 0), separated by {}, got \"{}\"",
          row.location(), columns.user, columns.item,
          value_column ? format(" and a number in column {}", *value_column) : "",
          layout.table.separator.empty() ? "a comma or a TAB" : "a comma, a TAB or data.source's separator",
          excerpt(row.line())));
    }
    const auto [position, is_new] = user_rows.emplace(row.at(columns.user), rows.size());
    if (is_new) {
      histories.users.push_back(position->first);
      rows.emplace_back();
      if (value_column) values.emplace_back();
    }
    const std::int32_t column = items.find(row, columns.item);
    if (column < 0) {
      histories.unknown.add(std::string(row.at(columns.item)));
      return;
    }
    rows[position->second].push_back(column);
    if (!value_column) return;
    float value = 0.0F;
    if (!parse_number(row.at(*value_column), value) || !std::isfinite(value)) {
      throw InputError(format("{}: must have a number in column {}, which is read as weight, got \"{}\"",
                              row.location(), histories.weights, excerpt(row.at(*value_column))));
    }
    values[position->second].push_back(
        {value, row.number(), time_column ? time_in(row.at(*time_column)) : 0.0});
  });
  if (rows.empty()) throw InputError(format("{}: contains no line \"user,item\"", path));
  constexpr std::int64_t most = models::Reasons::max_left_out;
  if (std::ranges::any_of(rows, [](const auto& row) { return std::ssize(row) > most; }))
    histories.last = sorted_rows(last_items(rows));
  std::vector<std::vector<float>> of_rows;
  if (value_column) of_rows = weigh(rows, values, *weights, path);
  histories.seen = sorted_rows(std::move(rows), of_rows);
  return histories;
}

}  // namespace vaecf::app
