#pragma once

#include <unistd.h>

#include <array>
#include <string>

namespace vaecf {

/// Returns what this machine calls itself; "unknown" where it does not say.
inline std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace vaecf
