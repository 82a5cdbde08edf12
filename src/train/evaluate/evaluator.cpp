#include <vaecf/train/evaluator.hpp>

#include <algorithm>
#include <array>
#include <limits>

namespace vaecf::train {

std::vector<std::string> evaluated_metrics(const ValidationOptions& options) {
  std::vector<std::string> names = options.metrics;
  const bool known = std::find(names.begin(), names.end(), options.select) != names.end();
  if (options.select != "last" && !known) names.push_back(options.select);
  return names;
}

/// Computes catalog coverage (Ge, Delgado-Battenfeld, Jannach, RecSys 2010): coverage@k is the fraction of
/// all items that are among the top k of at least one user with a target.
class CatalogCoverage {
 public:
  /// `metrics` must all be of kind coverage.
  CatalogCoverage(const std::vector<math::Metric>& metrics, std::int64_t items) : metrics_(metrics) {
    for (const math::Metric& metric : metrics_) {
      max_length_ = std::max(max_length_, static_cast<int>(std::min<std::int64_t>(metric.k, items)));
    }
    if (max_length_ == 0) return;
    best_position_.assign(static_cast<std::size_t>(items), std::numeric_limits<std::int64_t>::max());
  }

  /// Returns the list length that the metrics need; 0 without metrics.
  int max_length() const { return max_length_; }

  /// Adds the list of one user, best item first; it ends at the first negative item.
  void add(std::span<const std::int32_t> list) {
    for (std::size_t position = 0; position < list.size() && list[position] >= 0; ++position) {
      std::int64_t& best = best_position_[static_cast<std::size_t>(list[position])];
      best = std::min(best, static_cast<std::int64_t>(position));
    }
  }

  /// Returns the coverage of each metric over all ranks. Collective.
  std::vector<double> fractions(comm::Communicator& communicator) {
    if (metrics_.empty()) return {};
    communicator.all_reduce(std::span<std::int64_t>(best_position_), comm::Reduction::min);
    std::vector<double> fractions;
    for (const math::Metric& metric : metrics_) {
      const auto count =
          std::ranges::count_if(best_position_, [&](std::int64_t position) { return position < metric.k; });
      fractions.push_back(static_cast<double>(count) / static_cast<double>(best_position_.size()));
    }
    return fractions;
  }

 private:
  std::vector<math::Metric> metrics_;
  int max_length_ = 0;
  std::vector<std::int64_t> best_position_;  // best position of each item in any list; the maximum if in none
};

Evaluator::Evaluator(const io::DatasetFile& dataset, const std::string& split,
                     const std::vector<std::string>& metrics, const RunContext& context)
    : context_(context),
      items_(dataset.items()),
      all_users_(dataset.rows(split + "/fold_in")),
      held_out_(
          data::read_held_out(dataset, split, context.communicator.rank(), context.communicator.size())) {
  for (const std::string& name : metrics) {
    const math::Metric metric = math::parse_metric(name);
    (metric.kind == math::Metric::coverage ? coverages_ : metrics_).push_back(metric);
  }
  const CsrView targets = held_out_.targets.view();
  for (std::int64_t row = 0; row < targets.rows(); ++row) without_target_ += targets.row_size(row) == 0;
}

void Evaluator::prepare(model::Model& model) {
  if (loaded_model_ == &model) return;
  loaded_users_ = model.load_users(
      {held_out_.fold_in.view(), held_out_.features.view(), held_out_.targets.view(), held_out_.rows.begin});
  loaded_model_ = &model;
}

EvaluationResult Evaluator::evaluate(model::Model& model, model::History history) {
  prepare(model);
  Activity& activity = context_.communicator.activity();
  const std::vector<double> values =
      model.evaluate(*loaded_users_, history, metrics_, [&] { activity.note_progress(); });

  CatalogCoverage coverage(coverages_, items_);
  const auto length = static_cast<std::size_t>(coverage.max_length());
  const CsrView targets = held_out_.targets.view();
  const std::int64_t step = std::min(context_.engine.facts().evaluation_batch, model.max_users());
  std::vector<std::int32_t> lists(static_cast<std::size_t>(step) * length);
  std::vector<float> scores(lists.size());
  for (std::int64_t begin = 0; length > 0 && begin < targets.rows(); begin += step) {
    const Range rows{begin, std::min(targets.rows(), begin + step)};
    const std::size_t size = static_cast<std::size_t>(rows.size()) * length;
    model.top_k(*loaded_users_, rows, history, false, coverage.max_length(), std::span(lists).first(size),
                std::span(scores).first(size));
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const std::size_t first = static_cast<std::size_t>(row - rows.begin) * length;
      if (targets.row_size(row) > 0) coverage.add(std::span(lists).subspan(first, length));
    }
    activity.note_progress();
  }
  return reduce(values, coverage);
}

EvaluationResult Evaluator::evaluate(const RankTargetsFn& ranks_of, const TopItemsFn& top_of) {
  CatalogCoverage coverage(coverages_, items_);
  std::vector<std::int32_t> list(static_cast<std::size_t>(coverage.max_length()));
  const CsrView targets = held_out_.targets.view();
  const auto users = static_cast<std::size_t>(targets.rows());
  std::vector<double> values(metrics_.size() * users);
  std::vector<std::int32_t> ranks;
  for (std::int64_t row = 0; row < targets.rows(); ++row) {
    ranks.resize(static_cast<std::size_t>(targets.row_size(row)));
    ranks_of(row, ranks);
    if (ranks.empty()) continue;
    for (std::size_t m = 0; m < metrics_.size(); ++m) {
      values[m * users + static_cast<std::size_t>(row)] = math::metric_of_user(metrics_[m], ranks, items_);
    }
    if (!list.empty()) coverage.add(std::span(list).first(top_of(row, list)));
    context_.communicator.activity().note_progress();
  }
  return reduce(values, coverage);
}

EvaluationResult Evaluator::reduce(std::span<const double> values, CatalogCoverage& coverage) const {
  const CsrView targets = held_out_.targets.view();
  std::vector<double> moments;
  for (std::size_t m = 0; m < metrics_.size(); ++m) {
    math::MetricSums sums;
    const double* value = values.data() + static_cast<std::int64_t>(m) * targets.rows();
    for (std::int64_t row = 0; row < targets.rows(); ++row, ++value)
      if (targets.row_size(row) > 0) sums.add(*value);
    moments.insert(moments.end(), {sums.sum, sums.sum_of_squares});
  }
  std::array users{targets.rows() - without_target_, without_target_};
  context_.communicator.all_reduce(std::span<double>(moments));
  context_.communicator.all_reduce(std::span<std::int64_t>(users));

  EvaluationResult result;
  result.users = users[0];
  result.users_without_target = users[1];
  for (std::size_t m = 0; m < metrics_.size(); ++m) {
    const math::MetricSums total{moments[2 * m], moments[2 * m + 1], result.users};
    result.metrics[math::to_string(metrics_[m])] = {total.mean(), total.standard_error()};
  }
  const std::vector<double> fractions = coverage.fractions(context_.communicator);
  for (std::size_t c = 0; c < fractions.size(); ++c) {
    result.metrics[math::to_string(coverages_[c])] = {fractions[c], std::nullopt};
  }
  return result;
}

}  // namespace vaecf::train
