#pragma once

#include <unistd.h>

#include <array>
#include <string>

namespace vaecf {

/// Returns the name of this host, "unknown" if the system does not have one. A header of its own: nothing
/// else in base asks the system.
inline std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace vaecf
