#include "app/item_names.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <algorithm>
#include <array>
#include <cctype>

namespace vaecf::app {

ItemNames::ItemNames(const io::IdList& ids, const io::IdList& titles)
    : size_(ids.size()), numeric_(ids.numeric()) {
  for (std::int64_t i = 0; i < ids.size(); ++i) ids_.emplace(ids.text(i), static_cast<std::int32_t>(i));
  for (std::int64_t i = 0; i < titles.size(); ++i) {
    const auto [title, is_new] = titles_.emplace(titles.text(i), static_cast<std::int32_t>(i));
    if (!is_new) title->second = -1;
  }
}

std::int32_t ItemNames::find(const std::string& name) const {
  if (const auto id = ids_.find(name); id != ids_.end()) return id->second;
  const auto title = titles_.find(name);
  return title == titles_.end() ? -1 : title->second;
}

std::int32_t ItemNames::find(const data::Table& row, std::size_t column) const {
  const std::string_view field = row.at(column);
  const std::string_view rest = row.remainder(column);
  const std::int32_t whole = rest == field ? -1 : find(std::string(rest));
  return whole >= 0 ? whole : find(std::string(field));
}

void Strangers::add(const std::string& name) {
  ++times_;
  std::string shown = name.substr(0, 80);
  if (std::ranges::find(first_, shown) != first_.end()) return;
  if (first_.size() < 5)
    first_.push_back(std::move(shown));
  else
    more_ = true;
}

std::string Strangers::text() const {
  return joined(first_) + (more_ ? " ..." : "");
}

bool names_a_column(std::string_view text, std::string_view what) {
  std::string word;
  for (const char c : text) {
    if (c != '_' && c != ' ') word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  constexpr std::array kinds = {"item", "movie", "track", "song", "product", "book"};
  const auto heads = [&](std::string_view name) { return word == name || word == std::string(name) + "id"; };
  if (what == "user") return heads("user") || word == "uid";
  return std::ranges::any_of(kinds, heads) || word == "iid" || word == "id" || word == "title";
}

void read_rows(const std::string& path, const data::TableLayout& expected,
               const std::function<bool(data::Table& rows)>& first,
               const std::function<void(const data::Table& row)>& each) {
  Progress quiet;
  data::LineReader lines(io::SourceReader({path}, [](const std::string&) { return true; }), quiet, true);
  if (!lines.next_file()) throw InputError(format("{}: holds no file: give a TSV or CSV file", path));
  const std::string separator = data::separator_of(lines.peek(), {"\t", expected.separator});
  const bool quotes = separator == expected.separator ? expected.quotes : separator == ",";
  data::Table rows(lines, {.separator = separator, .quotes = quotes, .lenient = true});
  if (first(rows)) rows.next();
  while (rows.next()) each(rows);
  lines.next_file();  // an archive must hold no other
}

ItemList read_item_list(const std::string& path, const ItemNames& names) {
  ItemList list;
  const auto first = [](data::Table& rows) {
    rows.require(0);
    return names_a_column(rows.at(0), "item");
  };
  read_rows(path, {}, first, [&](const data::Table& row) {
    if (row.at(0).empty()) return;
    const std::int32_t item = names.find(row, 0);
    if (item < 0)
      list.unknown.add(std::string(row.at(0)));
    else
      list.items.push_back(item);
  });
  std::ranges::sort(list.items);
  list.items.erase(std::unique(list.items.begin(), list.items.end()), list.items.end());
  return list;
}

}  // namespace vaecf::app
