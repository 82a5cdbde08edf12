#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace vaecf {

/// Returns the middle value, or the mean of the two middle values; 0 if `values` is empty.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n == 0 ? 0.0 : 0.5 * (values[(n - 1) / 2] + values[n / 2]);
}

}  // namespace vaecf
