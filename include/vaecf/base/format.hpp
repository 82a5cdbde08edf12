#pragma once

// GCC 12 has no std::format. Only base includes fmt.
#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace vaecf {

/// fmt::format as a function object. A plain function would be ambiguous with std::format, which
/// argument-dependent lookup finds for std::string arguments in newer standard libraries.
struct Format {
  template <class... Args>
  std::string operator()(fmt::format_string<Args...> pattern, Args&&... args) const {
    return fmt::format(pattern, std::forward<Args>(args)...);
  }
};
inline constexpr Format format{};

/// Returns the elements of `strings`, separated by `separator`.
inline std::string join(const std::vector<std::string>& strings, std::string_view separator = ", ") {
  return fmt::format("{}", fmt::join(strings, separator));
}

/// Parses all of `text` as a number. Returns false if it is none; `number` may have changed then.
template <class Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

/// Returns the decimal digits of `number` in threes: 1234567 -> "1,234,567".
inline std::string grouped(std::int64_t number) {
  std::string digits = format("{}", number);
  for (auto place = static_cast<std::ptrdiff_t>(digits.size()) - 3; place > 0; place -= 3) {
    digits.insert(static_cast<std::size_t>(place), 1, ',');
  }
  return digits;
}

}  // namespace vaecf
