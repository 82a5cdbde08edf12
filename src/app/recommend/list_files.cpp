#include "app/recommend/list_files.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/io/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "app/recommend/user_item_columns.hpp"

namespace vaecf::app {
namespace {

/// Collects the places of lists, in the order of the file.
class Places {
 public:
  /// `where` precedes the numbers of add() in messages: "FILE:" or "FILE: row ".
  Places(std::string where, const io::IdList& users, const ItemNames& items)
      : where_(std::move(where)), users_(users), items_(items), of_user_(users.size()) {
    for (std::int64_t row = 0; row < users.size(); ++row) rows_.emplace(users.text(row), row);
  }

  /// Adds an item to the list of a user. Lists are sorted by ascending `key`, equal ones by calls. `number`:
  /// position in the file, for messages.
  void add(const std::string& user, const std::string& item, double key, std::int64_t number) {
    any_ = true;
    const auto row = rows_.find(user);
    if (row == rows_.end()) {
      if (unknown_users_.insert(user).second) file_.unknown_users.add(user);
      return;
    }
    std::int64_t index = items_.find(item);
    if (index < 0) {
      file_.unknown_items.add(item);
      index = items_.size() + unknown_items_.emplace(item, std::ssize(unknown_items_)).first->second;
    } else {
      any_item_ = true;
    }
    of_user_[row->second].push_back({key, index, number});
  }

  /// Returns the position `number` for a message.
  std::string location(std::int64_t number) const { return format("{}{}", where_, number); }

  /// Returns whether there is any place, and any of a known user and item.
  bool any() const { return any_; }
  bool any_item() const { return any_item_; }

  /// Returns the lists. Throws InputError if a user has an item twice.
  ListFile finish() {
    for (std::size_t row = 0; row < of_user_.size(); ++row) {
      std::vector<Place> list = std::exchange(of_user_[row], {});
      refuse_repeated(list, static_cast<std::int64_t>(row));
      std::ranges::stable_sort(list, {}, &Place::key);
      std::vector<std::int32_t>& items = file_.lists.emplace_back();
      for (const Place& place : list)
        items.push_back(place.item < items_.size() ? static_cast<std::int32_t>(place.item) : -1);
    }
    return std::move(file_);
  }

 private:
  struct Place {
    double key;
    std::int64_t item;  // column; for unknown items the number of all items and an index of the name
    std::int64_t number;
  };

  void refuse_repeated(std::vector<Place> list, std::int64_t row) const {
    std::ranges::stable_sort(list, {}, &Place::item);
    const auto again = std::ranges::adjacent_find(list, {}, &Place::item);
    if (again == list.end()) return;
    throw InputError(format("{}: user {} has this item twice, first at {}; list each item of a user once",
                            location(std::next(again)->number), excerpt(users_.text(row)),
                            location(again->number)));
  }

  std::string where_;
  const io::IdList& users_;
  const ItemNames& items_;
  std::unordered_map<std::string, std::int64_t> rows_;
  std::unordered_map<std::string, std::int64_t> unknown_items_;  // numbered by first appearance
  std::unordered_set<std::string> unknown_users_;
  std::vector<std::vector<Place>> of_user_;
  bool any_ = false;
  bool any_item_ = false;
  ListFile file_;
};

/// Returns the number in a field of ranks or scores, perhaps nan. Throws InputError if there is none.
double number_in(const data::Table& row, std::size_t column) {
  double value = 0.0;
  if (parse_number(row.at(column), value)) return value;
  throw InputError(format("{}: must have a number in column {} (from 0), got \"{}\"", row.location(), column,
                          excerpt(row.at(column))));
}

/// Returns the column with the header `what`, if there is one.
std::optional<std::size_t> find_header(const data::Table& first, std::string_view what) {
  const auto& fields = first.fields();
  const auto at =
      std::ranges::find_if(fields, [&](std::string_view field) { return data::is_header_for(field, what); });
  return at == fields.end() ? std::nullopt : std::optional<std::size_t>(at - fields.begin());
}

/// Reads a table and returns how the places are sorted.
std::string read_table(const std::string& path, const ItemNames& items, Places& places) {
  UserItemColumns columns;
  std::optional<std::size_t> rank;
  std::optional<std::size_t> score;
  const auto first = [&](data::Table& table) {
    const std::size_t count = table.fields().size();
    if (count > 1) columns = find_columns(table, data::source_layout({}), items);
    if (columns.header) {
      rank = find_header(table, "rank");
      if (!rank) score = find_header(table, "score");
    } else if (count > 2) {
      throw InputError(
          format("{}: has {} columns without names; begin the file with a line such as user,item,score",
                 table.location(), count));
    }
    table.require(std::max({columns.user, columns.item, rank.value_or(0), score.value_or(0)}));
    return columns.header;
  };
  const data::TableLayout any;
  read_rows(path, any, "name it .json", first, [&](const data::Table& row) {
    if (row.problem() != nullptr || row.at(columns.user).empty() || row.at(columns.item).empty()) {
      throw InputError(
          format("{}: must have a user in column {} and an item in column {} (from 0), got \"{}\"",
                 row.location(), columns.user, columns.item, excerpt(row.line())));
    }
    double key = 0.0;
    if (rank) key = number_in(row, *rank);
    if (score) key = -number_in(row, *score);
    if (std::isnan(key)) key = std::numeric_limits<double>::infinity();  // behind all others
    places.add(std::string(row.at(columns.user)), std::string(row.at(columns.item)), key, row.number());
  });
  return rank ? "by rank" : score ? "by score" : "as in the file";
}

/// Returns an id in JSON, a string or an integer, as a string.
std::optional<std::string> id_in(const io::Json& json) {
  if (json.is_string()) return json.get<std::string>();
  if (json.is_number_integer()) return json.dump();
  return std::nullopt;
}

/// Adds the list of a user from an object {"user": .., "items": [..]}. `problem`: why it is not JSON, or
/// empty.
void add_object(const io::Json& object, const std::string& problem, std::int64_t number, Places& places) {
  const auto user = object.find("user");
  const auto items = object.find("items");
  const auto id = user == object.end() ? std::nullopt : id_in(*user);
  bool valid = id && items != object.end() && items->is_array();
  for (std::size_t place = 0; valid && place < items->size(); ++place) {
    const auto item = id_in((*items)[place]);
    if (item) places.add(*id, *item, 0.0, number);
    valid = item.has_value();
  }
  if (valid) return;
  throw InputError(format(
      "{}: must be an object {{\"user\": ID, \"items\": [ID, ..]}}, whose ids are strings or integers{}{}",
      places.location(number), problem.empty() ? "" : "; ", problem));
}

void read_json_list(const std::string& path, Places& places) {
  const io::Json lists = io::read_json(path);
  if (!lists.is_array())
    throw InputError(format("{}: must be a JSON array of objects; or name it .jsonl", path));
  for (std::size_t i = 0; i < lists.size(); ++i)
    add_object(lists[i], "", static_cast<std::int64_t>(i) + 1, places);
}

void read_json_lines(const std::string& path, Places& places) {
  Progress quiet;
  data::LineReader lines(io::SourceReader({path}, [](const std::string&) { return true; }), quiet, true);
  (void)lines.next_file();
  refuse_json_array(lines);
  std::string problem;
  for (std::string_view line; lines.next(line);) {
    const io::Json object = io::parse_line(line, problem);
    add_object(object, problem, lines.number(), places);
  }
}

void read_hdf5(const std::string& path, Places& places) {
  const io::RecommendedLists lists = io::read_recommendations(path);
  const std::int64_t users = lists.users.size();
  const std::int64_t k = users == 0 ? 0 : std::ssize(lists.places) / users;
  for (std::int64_t at = 0; at < users * k; ++at) {
    const std::int32_t item = lists.places[at];
    if (item >= 0) places.add(lists.users.text(at / k), lists.items.text(item), 0.0, at / k);
  }
}

}  // namespace

ListFile read_lists(const std::string& path, const std::string& split, const io::IdList& users,
                    const io::IdList& items) {
  const ItemNames names(items);
  const std::string ending = std::filesystem::path(path).extension().string();
  const bool hdf5 = ending == ".h5" || ending == ".hdf5";
  Places places(hdf5 ? path + ": row " : ending == ".json" ? path + ": list " : path + ":", users, names);
  std::string order = "as in the file";
  if (hdf5)
    read_hdf5(path, places);
  else if (ending == ".json")
    read_json_list(path, places);
  else if (ending == ".jsonl")
    read_json_lines(path, places);
  else
    order = read_table(path, names, places);
  if (!places.any()) throw InputError(format("{}: contains no list", path));
  ListFile file = places.finish();
  file.order = std::move(order);
  if (std::ranges::all_of(file.lists, [](const auto& list) { return list.empty(); })) {
    throw InputError(format("{}: none of its users ({}) is among the {} users, whose ids are {} ...", path,
                            file.unknown_users.text(), split, first_ids(users)));
  }
  if (!places.any_item()) {
    throw InputError(format("{}: none of its items ({}) is among those of the dataset, whose ids are {} ...",
                            path, file.unknown_items.text(), first_ids(items)));
  }
  return file;
}

}  // namespace vaecf::app
