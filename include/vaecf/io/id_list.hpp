#pragma once

#include <vaecf/base/text.hpp>

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace vaecf::io {

/// Ids as in the source: all int64, or all strings.
struct IdList {
  std::vector<std::int64_t> numbers;  ///< used when `strings` is empty
  std::vector<std::string> strings;

  bool numeric() const { return strings.empty(); }
  std::int64_t size() const { return numeric() ? std::ssize(numbers) : std::ssize(strings); }
  /// Returns id `index` as a string.
  std::string text(std::int64_t index) const {
    return numeric() ? std::to_string(numbers.at(index)) : strings.at(index);
  }
  /// Returns the ids at `indices`, a range of integers.
  template <class Indices>
  IdList select(const Indices& indices) const {
    IdList chosen;
    for (const auto index : indices) {
      if (numeric())
        chosen.numbers.push_back(numbers.at(index));
      else
        chosen.strings.push_back(strings.at(index));
    }
    return chosen;
  }
};

/// Parses an integer id. Returns false unless printing it gives `text` again: "7", but not "007", "+7" or
/// "7.0".
[[nodiscard]] inline bool parse_integer_id(std::string_view text, std::int64_t& id) {
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (digits.starts_with('0') && text != "0") return false;
  return parse_number(text, id);
}

/// Returns ids as integers if each of them is one, otherwise as strings.
IdList make_ids(std::vector<std::string> ids);

/// Returns the ids `first`, `first` + 1, ...
IdList numbers_from(std::int64_t first, std::int64_t count);

}  // namespace vaecf::io
