#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vaecf::app {

/// How many things have each number of something: smallest, quantiles, largest, mean, and a bar for each
/// power of two, `indent` blanks in front of each line. `counts` is reordered. "" where there are none.
std::string histogram_text(std::vector<std::int64_t>& counts, int indent);

struct PlotPoint {
  double x = 0.0;
  double y = 0.0;
};

/// A curve in characters: `height` lines with the values of the highest and lowest one beside them, and a
/// line that says where x begins and ends. Points that are no numbers are left out; "" where none is left.
/// `mark`: x of the point to draw as 'O' (the best); others are '*'.
std::string plot_text(std::span<const PlotPoint> points, const std::string& title, double mark,
                      int width = 64, int height = 12);

}  // namespace vaecf::app
