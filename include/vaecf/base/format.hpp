#pragma once

// GCC 12 has no std::format; base is the one room that names fmt.
#include <fmt/format.h>

namespace vaecf {
using fmt::format;
}  // namespace vaecf
