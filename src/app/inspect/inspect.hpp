#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::app {

/// Returns the curves of a run by its metrics.jsonl: `metric`, by default the one that its configuration
/// selects by, and the loss, over epochs. Throws InputError if the file cannot be read.
std::string describe_run(const std::string& path, const std::string& metric);

/// Returns how many things have each number of something: smallest, quantiles, largest, mean, and a bar for
/// each power of two. `counts` is reordered. "" if there are none.
std::string histogram_text(std::vector<std::int64_t>& counts);

struct CurvePoint {
  double x = 0.0;
  double y = 0.0;
};

/// Returns a line with x, y and a bar for each point, or for some 20 evenly spaced ones, the one at x =
/// `mark` and the last. Points that are no numbers are left out; "" if none is left.
std::string curve_text(const std::vector<CurvePoint>& points, const std::string& title, double mark);

}  // namespace vaecf::app
