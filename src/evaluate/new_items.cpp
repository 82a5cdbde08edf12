#include <vaecf/evaluate/evaluator.hpp>
#include <vaecf/evaluate/popularity.hpp>
#include <vaecf/math/random_order.hpp>

#include <algorithm>

namespace vaecf::evaluate {

void Evaluator::take_new_targets() {
  const auto first = static_cast<std::int32_t>(items_);
  data::HeldOutUsers& to = new_item_users_.held_out;
  Csr others;
  for (std::int64_t row = 0; row < held_out_.targets.rows(); ++row) {
    const std::span<const std::int32_t> targets = held_out_.targets.view().row(row);
    const auto known = static_cast<std::size_t>(std::ranges::lower_bound(targets, first) - targets.begin());
    others.append(targets.first(known));
    if (known == targets.size()) continue;
    to.targets.append(targets.subspan(known));
    to.fold_in.append(held_out_.fold_in.view().row(row));
    if (held_out_.features.rows() > 0) to.features.append(held_out_.features.view().row(row));
    new_item_users_.rows.push_back(held_out_.rows.begin + row);
  }
  held_out_.targets = std::move(others);
}

void Evaluator::rank_among(models::Scorer& model, bool new_items) const {
  std::vector<std::uint8_t> allowed(static_cast<std::size_t>(items_), new_items ? 0 : 1);
  allowed.resize(static_cast<std::size_t>(items_ + new_items_), new_items ? 1 : 0);
  model.restrict_to(allowed);
}

void Evaluator::evaluate_new_items(models::Scorer& model, models::History history,
                                   std::span<EvaluationResult> results) {
  Activity& activity = context_.communicator.activity();
  const data::HeldOutUsers& users = new_item_users_.held_out;
  rank_among(model, true);
  const bool prepared = prepared_model_ == &model;
  const std::unique_ptr<models::LoadedUsers> loaded = prepared ? nullptr : load_users(model, users);
  const std::vector<std::int32_t> ranks =
      rank_targets(model, prepared ? *prepared_new_item_users_ : *loaded, history,
                   [&](std::int64_t) { activity.note_progress(); });
  model.restrict_to({});
  const CsrView features = model.features() > 0 ? users.features.view() : CsrView{};
  const CsrView targets = users.targets.view();
  const auto* next = ranks.data();
  for (EvaluationResult& result : results) {
    std::vector<double> values(rank_metrics_.size() * static_cast<std::size_t>(targets.rows()));
    for (std::int64_t row = 0; row < targets.rows(); ++row) {
      const std::span of_user(next, static_cast<std::size_t>(targets.row_size(row)));
      next += of_user.size();
      for (std::size_t m = 0; m < rank_metrics_.size(); ++m)
        values[m * static_cast<std::size_t>(targets.rows()) + static_cast<std::size_t>(row)] =
            math::metric_of_user(rank_metrics_[m], of_user, model.items());
    }
    result.new_items = reduce_new_items(values, features);
  }
}

std::optional<NewItemsResult> Evaluator::reduce_new_items(std::span<double> values, CsrView features) const {
  const data::HeldOutUsers& users = new_item_users_.held_out;
  const CsrView targets = users.targets.view();
  // New items have no users, so that popularity leaves them in their order.
  std::vector<double> random(values.size());
  for (std::int64_t row = 0; row < targets.rows(); ++row) {
    const std::span<const std::int32_t> history_of_user = users.fold_in.view().row(row);
    const auto seen = std::ranges::count_if(history_of_user, [&](std::int32_t i) { return i >= items_; });
    const bool popular = is_served_by_popularity(users.fold_in.view(), features, row);
    std::vector<std::int32_t> ranks;
    for (const std::int32_t item : targets.row(row))
      ranks.push_back(item - static_cast<std::int32_t>(items_));
    for (std::size_t m = 0; m < rank_metrics_.size(); ++m) {
      const auto at = m * static_cast<std::size_t>(targets.rows()) + static_cast<std::size_t>(row);
      if (popular) values[at] = math::metric_of_user(rank_metrics_[m], ranks, new_items_);
      random[at] =
          math::expectation_of_random_order(rank_metrics_[m], targets.row_size(row), new_items_ - seen);
    }
  }

  std::vector<double> sums = {static_cast<double>(targets.rows())};
  for (std::size_t m = 0; m < rank_metrics_.size(); ++m) {
    math::MetricSums of_model, of_random;
    for (std::int64_t row = 0; row < targets.rows(); ++row) {
      const auto at = m * static_cast<std::size_t>(targets.rows()) + static_cast<std::size_t>(row);
      of_model.add(values[at]);
      of_random.add(random[at]);
    }
    sums.insert(sums.end(), {of_model.sum, of_model.sum_of_squares, of_random.sum});
  }
  context_.data_parallel_ranks().all_reduce(std::span<double>(sums));
  NewItemsResult result{new_items_, static_cast<std::int64_t>(sums[0])};
  if (result.users == 0) return std::nullopt;
  auto value = values.begin();
  for (std::size_t m = 0; m < rank_metrics_.size(); ++m, value += targets.rows()) {
    const std::string& name = names_[m];
    const math::MetricSums of_model{sums[3 * m + 1], sums[3 * m + 2], result.users};
    result.metrics.emplace_back(name, MetricValue{of_model.mean(), of_model.standard_error()});
    result.random.emplace_back(
        name, MetricValue{sums[3 * m + 3] / static_cast<double>(result.users), std::nullopt});
    result.of_users[name].assign(value, value + targets.rows());
  }
  return result;
}

}  // namespace vaecf::evaluate
