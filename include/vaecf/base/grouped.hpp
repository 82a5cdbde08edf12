#pragma once

#include <vaecf/base/format.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace vaecf {

/// Returns the decimal digits of `number` in groups of three: 1234567 -> "1,234,567".
inline std::string grouped(std::int64_t number) {
  std::string digits = format("{}", number);
  for (auto place = static_cast<std::ptrdiff_t>(digits.size()) - 3; place > 0; place -= 3) {
    digits.insert(static_cast<std::size_t>(place), 1, ',');
  }
  return digits;
}

}  // namespace vaecf
