#include "app/inspect/text_plot.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace vaecf::app {
namespace {

TEST(TextPlot, HistogramCountsByPowersOfTwo) {
  std::vector<std::int64_t> counts = {5, 0, 1, 3, 2, 7, 4, 4};
  EXPECT_EQ(histogram_text(counts, 2),
            "  min 0, 10 % 1, 25 % 2, median 4, 75 % 4, 90 % 5, 99 % 7, max 7; mean 3.2\n"
            "                  0          1 ##########\n"
            "                  1          1 ##########\n"
            "              2 - 3          2 ####################\n"
            "              4 - 7          4 ########################################\n");
  std::vector<std::int64_t> none;
  EXPECT_EQ(histogram_text(none, 2), "");
}

TEST(TextPlot, CurveStandsWhereItsNumbersSay) {
  const std::vector<PlotPoint> points = {{1, 10}, {2, std::nan("")}, {3, 20}, {5, 0}};
  EXPECT_EQ(plot_text(points, "title", 3, 5, 3),
            "title\n"
            "        20 |  O\n"
            "           |*\n"
            "         0 |    *\n"
            "           +-----\n"
            "            1   5\n");
  const std::vector<PlotPoint> level = {{1, 2}};
  EXPECT_NE(plot_text(level, "one", 0, 5, 3).find('*'), std::string::npos);
  EXPECT_EQ(plot_text({}, "none", 0), "");
}

}  // namespace
}  // namespace vaecf::app
