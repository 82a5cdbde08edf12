#pragma once

#include <cstdint>
#include <iterator>
#include <string>
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

/// Returns the ids `first`, `first` + 1, ...
IdList numbers_from(std::int64_t first, std::int64_t count);

}  // namespace vaecf::io
