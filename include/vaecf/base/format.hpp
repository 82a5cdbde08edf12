#pragma once

// GCC 12 has no std::format; base is the one room that names fmt.
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vaecf {

/// fmt::format as an object: a plain function would be ambiguous with std::format, which newer standard
/// libraries offer for every call with a std::string among its arguments.
struct Format {
  template <class... Args>
  std::string operator()(fmt::format_string<Args...> pattern, Args&&... args) const {
    return fmt::format(pattern, std::forward<Args>(args)...);
  }
};
inline constexpr Format format{};

/// All of `texts` with `between` them.
inline std::string joined(const std::vector<std::string>& texts, std::string_view between = ", ") {
  return fmt::format("{}", fmt::join(texts, between));
}

}  // namespace vaecf
