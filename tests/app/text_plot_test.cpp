#include "app/inspect/inspect.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace vaecf::app {
namespace {

TEST(TextPlot, HistogramCountsByPowersOfTwo) {
  std::vector<std::int64_t> counts = {5, 0, 1, 3, 2, 7, 4, 4};
  EXPECT_EQ(histogram_text(counts),
            "  min 0, 10 % 1, 25 % 2, median 4, 75 % 4, 90 % 5, 99 % 7, max 7; mean 3.2\n"
            "                  0          1 ##########\n"
            "                  1          1 ##########\n"
            "              2 - 3          2 ####################\n"
            "              4 - 7          4 ########################################\n");
  std::vector<std::int64_t> none;
  EXPECT_EQ(histogram_text(none), "");
}

TEST(TextPlot, CurveHasABarForEachNumber) {
  const std::vector<CurvePoint> points = {{1, 10}, {2, std::nan("")}, {3, 20}, {5, 0}};
  EXPECT_EQ(curve_text(points, "title", 3),
            "title\n"
            "           1         10 #####################\n"
            "           3         20 OOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOO\n"
            "           5          0 #\n");
  EXPECT_EQ(curve_text({{1, 2}}, "one", 0), "one\n           1          2 #\n");
  EXPECT_EQ(curve_text({}, "none", 0), "");
}

TEST(TextPlot, LongCurvesShowSomePointsTheMarkedAndTheLast) {
  std::vector<CurvePoint> points;
  for (int epoch = 1; epoch <= 200; ++epoch) points.push_back({1.0 * epoch, 0.1 * epoch});
  const std::string text = curve_text(points, "title", 77);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 20 + 2) << text;
  EXPECT_NE(text.find("\n          77        7.7 O"), std::string::npos) << text;
  EXPECT_NE(text.find("\n         200         20 #"), std::string::npos) << text;
}

}  // namespace
}  // namespace vaecf::app
