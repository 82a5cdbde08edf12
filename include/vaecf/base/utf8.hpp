#pragma once

#include <vaecf/base/format.hpp>

#include <string>
#include <string_view>

namespace vaecf {

/// Returns whether `text` is well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates, no code point
/// above U+10FFFF).
inline bool is_utf8(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<unsigned char>(text[i++]);
    if (lead < 0x80) continue;
    const int more = lead >= 0xC2 && lead <= 0xDF   ? 1
                     : lead >= 0xE0 && lead <= 0xEF ? 2
                     : lead >= 0xF0 && lead <= 0xF4 ? 3
                                                    : 0;
    if (more == 0 || text.size() - i < static_cast<std::size_t>(more)) return false;
    for (int k = 0; k < more; ++k) {
      const auto next = static_cast<unsigned char>(text[i++]);
      unsigned low = 0x80;
      unsigned high = 0xBF;
      if (k == 0) {
        if (lead == 0xE0) low = 0xA0;
        if (lead == 0xED) high = 0x9F;
        if (lead == 0xF0) low = 0x90;
        if (lead == 0xF4) high = 0x8F;
      }
      if (next < low || next > high) return false;
    }
  }
  return true;
}

/// Returns at most the first 80 bytes of `text` for use in a message, followed by "..." if truncated. Control
/// characters are escaped as \t or \xNN, and so are all bytes above 0x7F if `text` is not UTF-8.
inline std::string excerpt(std::string_view text) {
  std::size_t length = 80;
  const bool readable = is_utf8(text);
  while (length < text.size() && readable && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80)
    --length;
  std::string shown;
  for (const char c : text.substr(0, length)) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '\t') {
      shown += "\\t";
    } else if (code < 0x20 || code == 0x7F || (code >= 0x80 && !readable)) {
      shown += format("\\x{:02x}", code);
    } else {
      shown += c;
    }
  }
  return text.size() > length ? shown + "..." : shown;
}

}  // namespace vaecf
