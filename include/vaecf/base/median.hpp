#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace vaecf {

/// Returns the middle value, or the mean of the middle two; 0 if there is none. A header of its own: nothing
/// else in base computes.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n == 0 ? 0.0 : 0.5 * (values[(n - 1) / 2] + values[n / 2]);
}

}  // namespace vaecf
