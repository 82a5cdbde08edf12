#pragma once

// GCC 12 has no std::format; base is the one room that names fmt.
#include <fmt/format.h>

#include <string>
#include <utility>

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

}  // namespace vaecf
