#pragma once

#include <unistd.h>

#include <array>
#include <string>

namespace vaecf {

/// Returns the name of this host, or "unknown" if gethostname() fails. In a header of its own because nothing
/// else in base makes system calls.
inline std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace vaecf
