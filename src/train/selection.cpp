#include "selection.hpp"

#include <algorithm>

namespace vaecf::train {

std::vector<std::string> evaluated_metrics(const ValidationOptions& options) {
  std::vector<std::string> names = options.metrics;
  const bool known = std::find(names.begin(), names.end(), options.select) != names.end();
  if (options.select != "last" && !known) names.push_back(options.select);
  return names;
}

bool Selection::better(std::int64_t epoch, double metric) {
  if (best_epoch_ != 0 && !(metric > best_metric_)) {
    ++waited_;
    return false;
  }
  best_epoch_ = epoch;
  best_metric_ = metric;
  waited_ = 0;
  return true;
}

void Selection::go_on(std::int64_t best_epoch, double best_metric, std::int64_t waited) {
  best_epoch_ = best_epoch;
  best_metric_ = best_epoch == 0 ? 0.0 : best_metric;
  waited_ = best_epoch == 0 ? 0 : waited;
}

}  // namespace vaecf::train
