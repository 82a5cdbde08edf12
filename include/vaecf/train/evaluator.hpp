#pragma once

#include <vaecf/comm/communicator.hpp>
#include <vaecf/data/shards.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/math/metrics.hpp>
#include <vaecf/model/model.hpp>
#include <vaecf/train/session.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace vaecf::train {

/// Returns the metrics to evaluate: those asked for, and the one that selects.
std::vector<std::string> evaluated_metrics(const ValidationOptions& options);

/// Room for so many users lets a model evaluate at full speed.
inline constexpr std::int64_t evaluation_batch = 500;

class Coverage;

/// Ranks of one user's held-out items (from 0; the number of items where one is masked).
using UserRanks = std::function<void(std::int64_t row, std::span<std::int32_t> ranks)>;
/// One user's first items, as many as fit; how many there were.
using UserTop = std::function<std::size_t(std::int64_t row, std::span<std::int32_t> items)>;

/// Scores the held-out users of one split: every rank its share, sums and user counts added over ranks in
/// fp64 and divided once. All ranks call it, and all get the same result.
class Evaluator {
 public:
  /// Reads this rank's share of `split` ("validation" or "test"). InputError for a metric's name.
  Evaluator(const io::DatasetFile& dataset, const std::string& split, const std::vector<std::string>& metrics,
            const Services& services);

  /// Places this rank's users where `model` computes, so that what does not fit there is found before the
  /// first evaluation. evaluate() does it for a model at another address than the last one. Throws RunError
  /// if the memory is not there.
  void prepare(model::Model& model);
  /// By the model: fold-in in, targets ranked among all items but the fold-in; also where the model gets
  /// nothing of it, so that results differ by what was known alone, and compare with popularity's.
  EvaluationResult evaluate(model::Model& model, model::History history = model::History::items);
  /// By any other way to rank the targets of row `row` of this rank's share; `top` is for coverage.
  EvaluationResult evaluate(const UserRanks& ranks, const UserTop& top);

  /// Users of the split over all ranks, those without targets included.
  std::int64_t users() const { return all_users_; }
  const data::HeldOutUsers& held_out() const { return held_out_; }

 private:
  /// From this rank's sums, one per metric of users, and the items in its users' lists.
  EvaluationResult reduce(const std::vector<math::MetricSums>& sums, Coverage& coverage) const;

  std::vector<math::Metric> metrics_;    // means over users
  std::vector<math::Metric> coverages_;  // of the catalogue
  Services services_;
  std::int64_t items_;
  std::int64_t all_users_;
  data::HeldOutUsers held_out_;
  std::int64_t without_target_ = 0;
  // This rank's users where the model of the last call computes.
  const model::Model* holder_ = nullptr;
  std::unique_ptr<model::HeldUsers> held_;
};

}  // namespace vaecf::train
