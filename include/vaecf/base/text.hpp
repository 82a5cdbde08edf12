#pragma once

// GCC 12 has no std::format. Only base includes fmt. nvcc cannot compile it, so files with kernels do not
// include this header.
#include <fmt/format.h>

#include <algorithm>
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
[[nodiscard]] bool parse_number(std::string_view text, Number& number) {
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

/// Returns the number of bytes of the code point at the start of `text`, which must not be empty; 0 if it is
/// not well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates, no code point above U+10FFFF).
inline std::size_t code_point_bytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return 1;
  const std::size_t bytes = lead >= 0xC2 && lead <= 0xDF   ? 2
                            : lead >= 0xE0 && lead <= 0xEF ? 3
                            : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                           : 0;
  if (bytes == 0 || text.size() < bytes) return 0;
  for (std::size_t k = 1; k < bytes; ++k) {
    const auto next = static_cast<unsigned char>(text[k]);
    unsigned low = 0x80;
    unsigned high = 0xBF;
    if (k == 1) {
      if (lead == 0xE0) low = 0xA0;
      if (lead == 0xED) high = 0x9F;
      if (lead == 0xF0) low = 0x90;
      if (lead == 0xF4) high = 0x8F;
    }
    if (next < low || next > high) return 0;
  }
  return bytes;
}

/// Returns whether `text` is well-formed UTF-8.
inline bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = code_point_bytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

/// Returns `text` without anything that controls a terminal: the control characters of ASCII, except for
/// those in `kept`, those from U+0080 to U+009F, and bytes that are not UTF-8 become \t, \n or \xNN. Every
/// message, the log, and results on a terminal pass through this function.
inline std::string escape(std::string_view text, std::string_view kept = "\n\t") {
  std::string shown;
  while (!text.empty()) {
    const std::size_t bytes = code_point_bytes(text);
    const std::string_view one = text.substr(0, bytes == 0 ? 1 : bytes);
    const auto code = static_cast<unsigned char>(one.front());
    const bool is_control =
        one.size() == 1 ? code < 0x20 || code >= 0x7F : one.size() == 2 && code == 0xC2 && one[1] < '\xA0';
    if (!is_control || kept.find(one) != std::string_view::npos) {
      shown += one;
    } else if (one == "\t" || one == "\n") {
      shown += one == "\t" ? "\\t" : "\\n";
    } else {
      for (const char c : one) shown += format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    text.remove_prefix(one.size());
  }
  return shown;
}

/// Returns the first `max_bytes` of `text`, escaped and followed by "..." if truncated, for use in a message.
/// All ids, lines, names and values that come from files pass through this function. A message contains at
/// most two of them, and so at most 200 bytes of such text.
inline std::string excerpt(std::string_view text, std::size_t max_bytes = 100) {
  std::size_t length = 0;
  for (std::size_t next = 0; length < text.size(); length = next) {
    next = length + std::max<std::size_t>(1, code_point_bytes(text.substr(length)));
    if (next > max_bytes) break;
  }
  return escape(text.substr(0, length), "") + (length < text.size() ? "..." : "");
}

}  // namespace vaecf
