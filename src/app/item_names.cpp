#include "app/item_names.hpp"

#include "app/fields.hpp"

#include <vaecf/base/format.hpp>

#include <algorithm>

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

std::int32_t ItemNames::find(const FieldReader& line, std::size_t index) const {
  const std::string& field = line.fields()[index];
  const std::string rest = line.rest(index);
  const std::int32_t whole = rest == field ? -1 : find(rest);
  return whole >= 0 ? whole : find(field);
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

ItemList read_item_list(const std::string& path, const ItemNames& names) {
  ItemList list;
  FieldReader reader(path);
  while (reader.next()) {
    const std::string& name = reader.fields().front();
    if (reader.first() && names_a_column(name, "item")) continue;
    if (name.empty()) continue;
    const std::int32_t item = names.find(reader, 0);
    if (item < 0)
      list.unknown.add(name);
    else
      list.items.push_back(item);
  }
  std::ranges::sort(list.items);
  list.items.erase(std::unique(list.items.begin(), list.items.end()), list.items.end());
  return list;
}

}  // namespace vaecf::app
