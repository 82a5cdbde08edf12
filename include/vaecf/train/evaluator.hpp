#pragma once

#include <vaecf/comm/communicator.hpp>
#include <vaecf/data/shards.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/math/metrics.hpp>
#include <vaecf/model/model.hpp>
#include <vaecf/train/train.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace vaecf::train {

/// Returns the metrics to evaluate: `options.metrics`, and `options.select` if it is another metric.
std::vector<std::string> evaluated_metrics(const ValidationOptions& options);

class CatalogCoverage;

/// Writes the ranks (from 0) of the held-out items of user `row`; a masked item has the number of items as
/// rank.
using RankTargetsFn = std::function<void(std::int64_t row, std::span<std::int32_t> ranks)>;
/// Writes the top items of user `row`, at most items.size(), and returns their count.
using TopItemsFn = std::function<std::size_t(std::int64_t row, std::span<std::int32_t> items)>;

/// Computes metrics of the held-out users of one split. Every rank evaluates its part of the users; sums in
/// fp64 and user counts are reduced over ranks and divided once. Results are equal on all ranks.
class Evaluator {
 public:
  /// Reads this rank's users of `split` ("validation" or "test"). Throws InputError if a metric name is
  /// invalid.
  Evaluator(const io::DatasetFile& dataset, const std::string& split, const std::vector<std::string>& metrics,
            const RunContext& context);

  /// Copies this rank's users to the device of `model`, so that a lack of memory is detected before the first
  /// evaluation. evaluate() calls it for a model at another address than the previous one. Throws RunError if
  /// the memory is not available.
  void prepare(model::Model& model);
  /// Evaluates `model`: targets are ranked among all items except those of the fold-in. `history` selects
  /// whether the fold-in is also the model's input; it is excluded from the ranking in any case. Collective.
  EvaluationResult evaluate(model::Model& model, model::History history = model::History::items);
  /// Evaluates another ranking of this rank's users; `top` is used for coverage only. Collective.
  EvaluationResult evaluate(const RankTargetsFn& ranks, const TopItemsFn& top);

  /// Returns the number of users of the split over all ranks, including those without targets.
  std::int64_t users() const { return all_users_; }
  const data::HeldOutUsers& held_out() const { return held_out_; }

 private:
  /// Reduces this rank's values (metrics_, users) and coverage over all ranks. Collective.
  EvaluationResult reduce(std::span<const double> values, CatalogCoverage& coverage) const;

  std::vector<math::Metric> metrics_;    // means over users
  std::vector<math::Metric> coverages_;  // of the catalogue
  RunContext context_;
  std::int64_t items_;
  std::int64_t all_users_;
  data::HeldOutUsers held_out_;
  std::int64_t without_target_ = 0;
  // This rank's users on the device of the model of the last call.
  const model::Model* loaded_model_ = nullptr;
  std::unique_ptr<model::LoadedUsers> loaded_users_;
};

}  // namespace vaecf::train
