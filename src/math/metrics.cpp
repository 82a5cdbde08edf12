#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/math/metric_rows.hpp>
#include <vaecf/math/metrics.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace vaecf::math {

namespace {

constexpr std::array<std::pair<std::string_view, MetricKind>, 7> kinds{{{"ndcg", MetricKind::ndcg},
                                                                        {"recall", MetricKind::recall},
                                                                        {"recall_n", MetricKind::recall_n},
                                                                        {"hit", MetricKind::hit},
                                                                        {"mrr", MetricKind::mrr},
                                                                        {"map", MetricKind::map},
                                                                        {"coverage", MetricKind::coverage}}};

}  // namespace

std::string metric_names() {
  std::string names;
  for (const auto& [name, kind] : kinds) names += format("{}{}@K", names.empty() ? "" : ", ", name);
  return names;
}

Metric parse_metric(std::string_view name) {
  const std::size_t at = name.find('@');
  const auto kind = std::find_if(kinds.begin(), kinds.end(),
                                 [&](const auto& known) { return known.first == name.substr(0, at); });
  if (at == std::string_view::npos || kind == kinds.end()) {
    throw InputError(
        format("'{}' is not a metric: metrics are {}, for example ndcg@100", name, metric_names()));
  }
  const std::string_view digits = name.substr(at + 1);
  std::int32_t k = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), k);
  // One name for each: 010 would be another one for 10.
  if (problem != std::errc{} || end != digits.data() + digits.size() || k < 1 || digits.starts_with('0')) {
    throw InputError(
        format("metric '{}' has cut-off '{}', which is not a whole number from 1 to 2147483647: write it "
               "like {}@100",
               name, digits, kind->first));
  }
  return {kind->second, k};
}

std::string to_string(const Metric& metric) {
  const auto kind = std::find_if(kinds.begin(), kinds.end(),
                                 [&](const auto& known) { return known.second == metric.kind; });
  return format("{}@{}", kind->first, metric.k);
}

double metric_of_user(const Metric& metric, std::span<const std::int32_t> ranks, std::int64_t items) {
  OneLane lane;
  return metric_row(lane, metric, ranks.data(), static_cast<std::int64_t>(ranks.size()), items);
}

double MetricSums::mean() const {
  return users > 0 ? sum / static_cast<double>(users) : 0.0;
}

double MetricSums::standard_error() const {
  if (users == 0) return 0.0;
  const auto n = static_cast<double>(users);
  const double variance = sum_of_squares / n - (sum / n) * (sum / n);
  return std::sqrt(std::max(variance, 0.0) / n);
}

}  // namespace vaecf::math
