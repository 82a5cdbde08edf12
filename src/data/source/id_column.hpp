#pragma once

#include <vaecf/io/id_list.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/source/id_table.hpp"

namespace vaecf::data {

/// Returns why `id` is invalid ("id is empty"), or nullptr if it is valid.
const char* id_problem(std::string_view id);

/// Assigns indices to the ids of one column in order of first appearance. Ids are integers until the first
/// one that is not; from then on all are strings. They therefore print exactly as in the source.
class IdColumn {
 public:
  /// `turned_to_text`: the first id that is not an integer, after others that are.
  enum class Id { known, fresh, turned_to_text };

  std::int32_t number(std::string_view field, Id& kind) {
    std::int64_t id = 0;
    if (text_ || !io::parse_integer_id(field, id)) return number_of_text(field, kind);
    // Fast path: lines of most files are in the order of user or by item.
    if (id != last_id_ || last_number_ < 0) {
      last_id_ = id;
      last_number_ = number_of_integer(id);
    }
    return last_number_;
  }
  io::IdList take() { return {integers_.take(), strings_.take()}; }
  /// Returns whether the first id is not an integer and all others are, as for a header that is read as data.
  bool only_first_is_text() const;

 private:
  std::int32_t number_of_text(std::string_view field, Id& kind);

  std::int32_t number_of_integer(std::int64_t id) {
    if (id < 0 || id >= max_small_ids) return integers_.find_or_add(id);
    const auto index = static_cast<std::size_t>(id);
    if (index >= number_of_small_.size())
      number_of_small_.resize(std::min(2 * index + 1, static_cast<std::size_t>(max_small_ids)), -1);
    std::int32_t& number = number_of_small_[index];
    if (number < 0) number = integers_.find_or_add(id);
    return number;
  }

  // Smaller ids are looked up in an array, with one memory access instead of two; it takes at most 16 MiB.
  static constexpr std::int64_t max_small_ids = std::int64_t{1} << 22;

  bool text_ = false;
  std::int64_t last_id_ = 0;
  std::int32_t last_number_ = -1;
  std::vector<std::int32_t> number_of_small_;
  IdTable<std::int64_t, std::int64_t> integers_;
  IdTable<std::string, std::string_view> strings_;
};

}  // namespace vaecf::data
