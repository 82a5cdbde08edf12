#pragma once

#include <string>
#include <vector>

namespace vaecf::app {

/// "0-3, 8" of 0, 1, 2, 3, 8: ascending numbers.
std::string list_of(const std::vector<int>& numbers);

}  // namespace vaecf::app
