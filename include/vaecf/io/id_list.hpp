#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vaecf::io {

/// Ids as in the source: all int64, or all strings.
struct IdList {
  std::vector<std::int64_t> numbers;  ///< used when `strings` is empty
  std::vector<std::string> strings;
  bool numeric() const { return strings.empty(); }
  std::int64_t size() const;
  /// Returns id `index` as a string.
  std::string text(std::int64_t index) const;
  IdList select(std::span<const std::int64_t> indices) const;  ///< list of these ids, of the same type
};

}  // namespace vaecf::io
