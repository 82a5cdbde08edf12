#include <vaecf/math/metrics.hpp>
#include <vaecf/math/user_metrics.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/emulated_thread_group.hpp"

namespace vaecf::math {
namespace {

/// Reader of tests/reference/metrics_reference.txt; the script that writes it describes the format.
class Reference {
 public:
  Reference() : file_(VAECF_REFERENCE_DIRECTORY "/metrics_reference.txt") {
    if (!file_) throw std::runtime_error("cannot open metrics_reference.txt");
  }

  bool at_end() { return file_.peek() == std::ifstream::traits_type::eof(); }

  template <class T>
  std::vector<T> line(const std::string& name) {
    std::string text;
    std::getline(file_, text);
    std::istringstream words(text);
    std::string first;
    words >> first;
    if (first != name) throw std::runtime_error("expected a line '" + name + "', found '" + first + "'");
    std::vector<T> values;
    for (T value; words >> value;) values.push_back(value);
    if (!words.eof()) throw std::runtime_error("invalid value in a line '" + name + "'");
    return values;
  }

 private:
  std::ifstream file_;
};

TEST(MetricsReference, ValuesMeansAndErrorsAreEqualOnThreadAndBlock) {
  testing::EmulatedThreadGroup thread_group(64);
  Reference reference;
  std::vector<Metric> metrics;
  for (const std::string& name : reference.line<std::string>("metrics"))
    metrics.push_back(parse_metric(name));
  int compared = 0;
  int without_target = 0;
  while (!reference.at_end()) {
    const auto shape = reference.line<std::int64_t>("block");
    std::vector<MetricSums> sums(metrics.size());
    for (std::int64_t user = 0; user < shape.at(0); ++user) {
      const auto scores = reference.line<float>("scores");
      const auto fold_in = reference.line<std::int32_t>("fold_in");
      const auto targets = reference.line<std::int32_t>("targets");
      const auto values = reference.line<double>("values");
      ASSERT_EQ(static_cast<std::int64_t>(scores.size()), shape.at(1));
      std::vector<std::int32_t> ranks;
      for (const std::int32_t target : targets) {
        const auto masked = [&](std::int32_t item) { return std::ranges::binary_search(fold_in, item); };
        std::int32_t rank = 0;
        for (std::int32_t item = 0; item < shape.at(1); ++item) {
          rank += masked(target) ||
                  (!masked(item) && ranks_ahead(scores.at(static_cast<std::size_t>(item)), item,
                                                scores.at(static_cast<std::size_t>(target)), target));
        }
        ranks.push_back(rank);
      }
      if (targets.empty()) {
        ASSERT_TRUE(values.empty());
        ++without_target;
        continue;
      }
      for (std::size_t i = 0; i < metrics.size(); ++i) {
        const double value = user_metric(thread_group, metrics[i], ranks.data(),
                                         static_cast<std::int64_t>(ranks.size()), shape.at(1));
        sums[i].add(value);
        EXPECT_NEAR(value, values.at(i), 1e-13) << to_string(metrics[i]) << " of user " << user;
        EXPECT_NEAR(metric_of_user(metrics[i], ranks, shape.at(1)), value, 1e-13);
        ++compared;
      }
    }
    const auto means = reference.line<double>("mean");
    const auto errors = reference.line<double>("error");
    for (std::size_t i = 0; i < metrics.size(); ++i) {
      EXPECT_NEAR(sums[i].mean(), means.at(i), 1e-13);
      EXPECT_NEAR(sums[i].standard_error(), errors.at(i), 1e-10);
    }
  }
  EXPECT_EQ(compared, 21 * 89);
  EXPECT_EQ(without_target, 17);
}

}  // namespace
}  // namespace vaecf::math
