#include <vaecf/train/evaluator.hpp>

#include <algorithm>
#include <numeric>

namespace vaecf::train {

Evaluator::Evaluator(const io::DatasetFile& dataset, const std::string& split,
                     const std::vector<std::string>& metrics, const Services& services)
    : names_(metrics),
      services_(services),
      items_(dataset.items()),
      all_users_(dataset.rows(split + "/fold_in")),
      held_out_(
          data::read_held_out(dataset, split, services.communicator.rank(), services.communicator.size())),
      fold_in_(services.backend.hold_rows(held_out_.fold_in.view(), held_out_.rows.begin, items_)),
      targets_(services.backend.hold_rows(held_out_.targets.view(), held_out_.rows.begin, items_)),
      batch_(services.backend.make_batch()) {
  for (const std::string& name : names_) metrics_.push_back(math::parse_metric(name));
  const CsrView targets = held_out_.targets.view();
  for (std::int64_t row = 0; row < targets.rows(); ++row) without_target_ += targets.row_size(row) == 0;
}

EvaluationResult Evaluator::evaluate(model::Model& model) {
  const auto totals = services_.backend.make_metric_totals(metrics_.size());
  std::vector<std::int64_t> rows;
  const std::int64_t step = std::min(evaluation_batch, model.max_rows());
  for (std::int64_t begin = 0; begin < fold_in_->rows(); begin += step) {
    const Range part{begin, std::min(fold_in_->rows(), begin + step)};
    rows.resize(static_cast<std::size_t>(part.size()));
    std::iota(rows.begin(), rows.end(), begin);
    services_.backend.gather_batch(*fold_in_, rows, false, *batch_);
    model.add_metrics(*batch_, *targets_, part, metrics_, *totals);
    services_.communicator.activity().progressed();
  }
  return reduce(services_.backend.read_metrics(*totals));
}

EvaluationResult Evaluator::evaluate(const UserRanks& ranks_of) {
  std::vector<math::MetricSums> sums(metrics_.size());
  const CsrView targets = held_out_.targets.view();
  std::vector<std::int32_t> ranks;
  for (std::int64_t row = 0; row < targets.rows(); ++row) {
    ranks.resize(static_cast<std::size_t>(targets.row_size(row)));
    ranks_of(row, ranks);
    if (ranks.empty()) continue;
    for (std::size_t m = 0; m < metrics_.size(); ++m) {
      sums[m].add(math::metric_of_user(metrics_[m], ranks, items_));
    }
    services_.communicator.activity().progressed();
  }
  return reduce(sums);
}

EvaluationResult Evaluator::reduce(const std::vector<math::MetricSums>& sums) const {
  std::vector<double> moments;
  std::vector<std::int64_t> users;
  for (const math::MetricSums& metric : sums) {
    moments.insert(moments.end(), {metric.sum, metric.sum_of_squares});
    users.push_back(metric.users);
  }
  users.push_back(without_target_);
  services_.communicator.all_reduce(std::span<double>(moments));
  services_.communicator.all_reduce(std::span<std::int64_t>(users));

  EvaluationResult result;
  result.users_without_target = users.back();
  for (std::size_t m = 0; m < metrics_.size(); ++m) {
    const math::MetricSums total{moments[2 * m], moments[2 * m + 1], users[m]};
    result.metrics[names_[m]] = {total.mean(), total.standard_error()};
    result.users = total.users;
  }
  return result;
}

}  // namespace vaecf::train
