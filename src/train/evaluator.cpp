#include <vaecf/train/evaluator.hpp>

#include <algorithm>
#include <numeric>

namespace vaecf::train {

struct Evaluator::Sums {
  std::vector<math::MetricSums> metrics;
  std::int64_t without_target = 0;
};

Evaluator::Evaluator(const io::DatasetFile& dataset, const std::string& split,
                     const std::vector<std::string>& metrics, const Services& services)
    : names_(metrics),
      services_(services),
      items_(dataset.items()),
      all_users_(dataset.rows(split + "/fold_in")),
      held_out_(
          data::read_held_out(dataset, split, services.communicator.rank(), services.communicator.size())),
      fold_in_(services.backend.hold_rows(held_out_.fold_in.view(), held_out_.rows.begin, items_)),
      batch_(services.backend.make_batch()) {
  for (const std::string& name : names_) metrics_.push_back(math::parse_metric(name));
}

void Evaluator::add(Sums& sums, std::span<const std::int32_t> ranks) const {
  if (ranks.empty()) {
    ++sums.without_target;
    return;
  }
  for (std::size_t m = 0; m < metrics_.size(); ++m) {
    sums.metrics[m].add(math::metric_of_user(metrics_[m], ranks, items_));
  }
}

EvaluationResult Evaluator::evaluate(model::Model& model) {
  Sums sums{std::vector<math::MetricSums>(metrics_.size()), 0};
  const Csr& targets = held_out_.targets;
  std::vector<std::int64_t> rows;
  std::vector<std::int32_t> ranks;
  const std::int64_t step = std::min(evaluation_batch, model.max_rows());
  for (std::int64_t begin = 0; begin < targets.rows(); begin += step) {
    const std::int64_t end = std::min(targets.rows(), begin + step);
    rows.resize(static_cast<std::size_t>(end - begin));
    std::iota(rows.begin(), rows.end(), begin);
    services_.backend.gather_batch(*fold_in_, rows, false, *batch_);

    const auto first = static_cast<std::size_t>(targets.offsets[begin]);
    const auto count = static_cast<std::size_t>(targets.offsets[end]) - first;
    const CsrView view{std::span(targets.offsets).subspan(begin, rows.size() + 1),
                       std::span(targets.columns).subspan(first, count)};
    ranks.resize(count);
    model.rank_held_out(*batch_, view, ranks);
    for (std::int64_t row = begin; row < end; ++row) {
      add(sums, std::span(ranks).subspan(static_cast<std::size_t>(targets.offsets[row]) - first,
                                         static_cast<std::size_t>(view.row_size(row - begin))));
    }
  }
  return reduce(sums);
}

EvaluationResult Evaluator::evaluate(const UserRanks& ranks_of) {
  Sums sums{std::vector<math::MetricSums>(metrics_.size()), 0};
  const CsrView targets = held_out_.targets.view();
  std::vector<std::int32_t> ranks;
  for (std::int64_t row = 0; row < targets.rows(); ++row) {
    ranks.resize(static_cast<std::size_t>(targets.row_size(row)));
    ranks_of(row, ranks);
    add(sums, ranks);
  }
  return reduce(sums);
}

EvaluationResult Evaluator::reduce(Sums& sums) const {
  std::vector<double> moments;
  std::vector<std::int64_t> users;
  for (const math::MetricSums& metric : sums.metrics) {
    moments.insert(moments.end(), {metric.sum, metric.sum_of_squares});
    users.push_back(metric.users);
  }
  users.push_back(sums.without_target);
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
