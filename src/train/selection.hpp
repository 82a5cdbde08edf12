#pragma once

#include <vaecf/train/session.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::train {

/// The metrics to evaluate: those asked for, and the one that selects.
std::vector<std::string> evaluated_metrics(const ValidationOptions& options);

/// Decides which epoch is the best and when waiting for a better one has lasted long enough.
class Selection {
 public:
  /// `patience`: validations without a better one before it is over; 0 = never.
  explicit Selection(std::int64_t patience) : patience_(patience) {}

  /// True where `metric` is the best so far: larger than all before it.
  bool better(std::int64_t epoch, double metric);
  /// As it was when a checkpoint was written. `best_epoch` 0: there is none any more.
  void go_on(std::int64_t best_epoch, double best_metric, std::int64_t waited);
  bool over() const { return patience_ > 0 && waited_ >= patience_; }

  std::int64_t best_epoch() const { return best_epoch_; }  ///< 0: none yet
  double best_metric() const { return best_metric_; }
  std::int64_t waited() const { return waited_; }

 private:
  std::int64_t patience_;
  std::int64_t best_epoch_ = 0;
  double best_metric_ = 0.0;
  std::int64_t waited_ = 0;
};

}  // namespace vaecf::train
