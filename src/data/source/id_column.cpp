#include "data/source/id_column.hpp"

#include "data/source/id_table.hpp"

namespace vaecf::data {
namespace {}  // namespace

const char* id_problem(std::string_view id) {
  constexpr std::size_t max_bytes = 4096;  // limit of dataset files, in bytes
  if (id.empty()) return "id is empty";
  if (id.size() > max_bytes) return "id is longer than 4096 bytes";
  // Dataset files pad strings with zeros, so a zero byte would be lost.
  return id.find('\0') == std::string_view::npos ? nullptr : "id contains a zero byte";
}

std::int32_t IdColumn::number_of_text(std::string_view field, Id& kind) {
  kind = Id::known;
  if (!text_) {
    // All ids so far print exactly as in the source.
    for (const std::int64_t id : integers_.take()) strings_.find_or_add(std::to_string(id));
    text_ = true;
    if (strings_.size() > 0) kind = Id::turned_to_text;
  }
  const std::size_t before = strings_.size();
  const std::int32_t number = strings_.find_or_add(field);
  if (kind == Id::known && strings_.size() > before) kind = Id::fresh;
  return number;
}

bool IdColumn::only_first_is_text() const {
  const std::vector<std::string>& ids = strings_.ids();
  const auto is_integer = [](const std::string& id) {
    std::int64_t number = 0;
    return io::parse_integer_id(id, number);
  };
  return ids.size() > 1 && !is_integer(ids.front()) && std::all_of(ids.begin() + 1, ids.end(), is_integer);
}

}  // namespace vaecf::data
