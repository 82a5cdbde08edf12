#include "app/recommend/item_names.hpp"

#include <vaecf/base/error.hpp>

#include <algorithm>
#include <cctype>
#include <utility>

namespace vaecf::app {

ItemNames::ItemNames(const io::IdList& ids, const io::IdList& titles)
    : size_(ids.size()), numeric_(ids.numeric()), first_ids_(app::first_ids(ids)) {
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

std::string first_ids(const io::IdList& ids) {
  std::vector<std::string> first;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(ids.size(), 3); ++i) first.push_back(ids.text(i));
  return excerpt(join(first));
}

void UnknownNames::add(const std::string& name) {
  ++count_;
  std::string shown = name.substr(0, 80);
  if (std::ranges::find(first_, shown) != first_.end()) return;
  if (first_.size() < 5)
    first_.push_back(std::move(shown));
  else
    more_ = true;
}

std::string UnknownNames::text() const {
  return excerpt(join(first_)) + (more_ ? " ..." : "");
}

void throw_none_known(const std::string& file, const UnknownNames& unknown, const ItemNames& names) {
  throw InputError(format("{}: none of its items ({}) is among those of the model ({} ...); correct the ids",
                          file, unknown.text(), names.first_ids()));
}

}  // namespace vaecf::app
