#include <vaecf/base/error.hpp>
#include <vaecf/base/text.hpp>
#include <vaecf/math/metrics.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "math/user_metrics.hpp"

namespace vaecf::math {
namespace {

/// A metric of recommended lists.
struct ListMetric {
  std::string_view name;
  CatalogMetric of_catalog = nullptr;  ///< null: a mean over users
  bool smallest_is_best = false;
};

/// The metric at index m has the kind -1 - m.
constexpr auto list_metrics = std::to_array<ListMetric>({{"coverage", coverage},
                                                         {"gini", gini, true},
                                                         {"mean_popularity", nullptr, true},
                                                         {"tail_share"},
                                                         {"novelty"}});

/// Returns the metric of lists with a kind below 0.
const ListMetric& list_metric(int kind) {
  return list_metrics.at(static_cast<std::size_t>(-1 - kind));
}

std::string_view name_of(int kind) {
  return kind < 0 ? list_metric(kind).name : UserMetrics::names[kind];
}

/// Returns all kinds in documentation order.
std::vector<int> kinds() {
  std::vector<int> all(std::size(UserMetrics::names));
  std::iota(all.begin(), all.end(), 0);
  for (int m = 0; m < std::ssize(list_metrics); ++m) all.push_back(-1 - m);
  return all;
}

}  // namespace

std::string metric_names() {
  std::string names;
  for (const int kind : kinds()) names += format("{}{}@K", names.empty() ? "" : ", ", name_of(kind));
  return names;
}

Metric parse_metric(std::string_view name) {
  const std::size_t at = name.find('@');
  const std::vector<int> all = kinds();
  const auto kind = std::ranges::find(all, name.substr(0, at), name_of);
  if (at == std::string_view::npos || kind == all.end()) {
    throw InputError(
        format("'{}' is not a metric; use one of {}, for example ndcg@100", excerpt(name), metric_names()));
  }
  const std::string_view digits = name.substr(at + 1);
  std::int32_t k = 0;
  // A cut-off has one spelling: 010 would be a second name for 10.
  if (!parse_number(digits, k) || k < 1 || digits.starts_with('0')) {
    throw InputError(format(
        "metric '{}': the cut-off must be an integer from 1 to 2147483647, got '{}'; write it like {}@100",
        excerpt(name), excerpt(digits), name_of(*kind)));
  }
  return {*kind, k};
}

std::string to_string(const Metric& metric) {
  return format("{}@{}", name_of(metric.kind), metric.k);
}

bool is_better(std::string_view name, double value, double other) {
  const auto metric = std::ranges::find(list_metrics, name.substr(0, name.find('@')), &ListMetric::name);
  const bool smallest = metric != list_metrics.end() && metric->smallest_is_best;
  return smallest ? value < other : value > other;
}

CatalogMetric catalog_metric(const Metric& metric) {
  return metric.kind < 0 ? list_metric(metric.kind).of_catalog : nullptr;
}

bool is_unbiased(const Metric& metric) {
  return name_of(metric.kind).starts_with("unbiased_");
}

bool is_of_groups(const Metric& metric) {
  const std::string_view name = name_of(metric.kind);
  return name == Ndcg::name || name == Recall::name || name == RecallN::name;
}

double metric_of_user(const Metric& metric, std::span<const std::int32_t> ranks, std::int64_t items,
                      std::span<const double> gains) {
  const std::int64_t k = std::min<std::int64_t>(metric.k, items);
  const std::int64_t possible = std::min<std::int64_t>(k, std::ssize(ranks));
  return possible == 0 ? 0.0 : UserMetrics::of_user(metric.kind, {ranks, gains, k, possible, metric.k});
}

std::vector<double> inverse_propensities(std::span<const std::int64_t> users_of_items) {
  constexpr double smallest = 0.01;
  const std::int64_t most = users_of_items.empty() ? 0 : *std::ranges::max_element(users_of_items);
  std::vector<double> inverse;
  for (const std::int64_t users : users_of_items) {
    const double relative = most > 0 ? static_cast<double>(users) / static_cast<double>(most) : 0.0;
    inverse.push_back(1.0 / std::max(smallest, std::sqrt(relative)));
  }
  return inverse;
}

double coverage(std::span<const std::int64_t> lists_of_item) {
  const auto items = std::ranges::count_if(lists_of_item, [](std::int64_t lists) { return lists > 0; });
  return static_cast<double>(items) / static_cast<double>(lists_of_item.size());
}

double gini(std::span<const std::int64_t> lists_of_item) {
  std::vector<std::int64_t> ascending(lists_of_item.begin(), lists_of_item.end());
  std::ranges::sort(ascending);
  const auto items = static_cast<double>(ascending.size());
  double weighted = 0.0;
  double sum = 0.0;
  for (std::size_t i = 0; i < ascending.size(); ++i) {
    const auto lists = static_cast<double>(ascending[i]);
    weighted += (2.0 * static_cast<double>(i + 1) - items - 1.0) * lists;
    sum += lists;
  }
  return sum > 0.0 ? weighted / (items * sum) : 0.0;
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
