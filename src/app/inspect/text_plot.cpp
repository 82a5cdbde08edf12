#include "app/inspect/text_plot.hpp"

#include <vaecf/base/format.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

namespace vaecf::app {
namespace {

constexpr std::int64_t bar_width = 40;

/// Class of a count: 0, 1, 2-3, 4-7, ...
std::size_t class_of(std::int64_t count) {
  return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(count)));
}

std::string class_name(std::size_t number) {
  if (number <= 1) return format("{}", number);
  return format("{} - {}", std::int64_t{1} << (number - 1), (std::int64_t{1} << number) - 1);
}

}  // namespace

std::string histogram_text(std::vector<std::int64_t>& counts, int indent) {
  if (counts.empty()) return "";
  std::ranges::sort(counts);
  const auto quantile = [&](double share) {
    return counts[static_cast<std::size_t>(std::lround(share * static_cast<double>(counts.size() - 1)))];
  };
  const double mean = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0})) /
                      static_cast<double>(counts.size());
  std::string out =
      format("{:{}}min {}, 10 % {}, 25 % {}, median {}, 75 % {}, 90 % {}, 99 % {}, max {}; mean {:.1f}\n", "",
             indent, counts.front(), quantile(0.1), quantile(0.25), quantile(0.5), quantile(0.75),
             quantile(0.9), quantile(0.99), counts.back(), mean);
  std::array<std::int64_t, 65> sizes{};
  for (const std::int64_t count : counts) ++sizes[class_of(count)];
  const std::int64_t largest = *std::ranges::max_element(sizes);
  for (std::size_t c = class_of(counts.front()); c <= class_of(counts.back()); ++c) {
    // What is there is seen.
    const std::int64_t bar = (sizes[c] * bar_width + largest - 1) / largest;
    out += format("{:{}}{:>17} {:>10} {:#>{}}\n", "", indent, class_name(c), sizes[c], "", bar);
  }
  return out;
}

std::string plot_text(std::span<const PlotPoint> all, const std::string& title, double mark, int width,
                      int height) {
  std::vector<PlotPoint> points;
  std::ranges::copy_if(all, std::back_inserter(points),
                       [](const PlotPoint& p) { return std::isfinite(p.x) && std::isfinite(p.y); });
  if (points.empty()) return "";
  const auto [left, right] = std::ranges::minmax(points, {}, &PlotPoint::x);
  const auto [low, high] = std::ranges::minmax(points, {}, &PlotPoint::y);
  const auto place = [](double value, double from, double to, int cells) {
    return to > from ? static_cast<std::size_t>(std::lround((value - from) / (to - from) * (cells - 1))) : 0;
  };
  std::vector<std::string> lines(static_cast<std::size_t>(height),
                                 std::string(static_cast<std::size_t>(width), ' '));
  const auto draw = [&](const PlotPoint& p, char sign) {
    const std::size_t line = lines.size() - 1 - place(p.y, low.y, high.y, height);
    lines[line][place(p.x, left.x, right.x, width)] = sign;
  };
  for (const PlotPoint& p : points) draw(p, '*');
  for (const PlotPoint& p : points) {
    if (p.x == mark) draw(p, 'O');
  }
  std::string out = title + "\n";
  for (std::size_t l = 0; l < lines.size(); ++l) {
    std::string label;
    if (l == 0) label = format("{:.5g}", high.y);
    if (l + 1 == lines.size()) label = format("{:.5g}", low.y);
    const auto end = lines[l].find_last_not_of(' ');
    out += format("{:>10} |{}\n", label, end == std::string::npos ? "" : lines[l].substr(0, end + 1));
  }
  const std::string from = format("{:g}", left.x);
  out += format("{:>10} +{:-<{}}\n", "", "", width);
  out += format("{:>11} {}{:>{}g}\n", "", from, right.x, std::max(width - static_cast<int>(from.size()), 1));
  return out;
}

}  // namespace vaecf::app
