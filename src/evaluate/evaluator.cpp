#include <vaecf/base/text.hpp>
#include <vaecf/evaluate/evaluator.hpp>
#include <vaecf/evaluate/popularity.hpp>

#include <algorithm>
#include <array>
#include <limits>

namespace vaecf::evaluate {

struct Evaluator::Values {
  std::vector<double> of_users;  // (rank and list metrics, users); 0 without a target
  std::vector<double> of_head;   // (group metrics, users); 0 without a target in the head
  std::vector<double> of_tail;
  std::vector<std::vector<std::int64_t>> lists;  // number of lists with each item, for each catalog metric
};

Evaluator::Evaluator(const Context& context, const io::DatasetFile& dataset, const std::string& split,
                     const std::vector<std::string>& metrics)
    : context_(context),
      dataset_(dataset),
      split_(split),
      items_(dataset.items() - dataset.new_items()),
      new_items_(dataset.new_items()),
      all_users_(dataset.rows(split + "/fold_in")),
      held_out_(data::read_held_out(dataset, split, context.model_parallel_group(),
                                    context.model_parallel_groups())) {
  for (const std::string& name : metrics) {
    const math::Metric metric = math::parse_metric(name);
    if (std::ranges::find(order_, math::to_string(metric)) != order_.end()) continue;
    order_.push_back(math::to_string(metric));
    const bool of_catalog = math::catalog_metric(metric) != nullptr;
    (metric.kind >= 0 ? rank_metrics_ : of_catalog ? catalog_metrics_ : list_metrics_).push_back(metric);
    if (metric.kind >= 0) continue;
    list_length_ = std::max(list_length_, static_cast<int>(std::min<std::int64_t>(metric.k, items_)));
  }
  for (const math::Metric& metric : rank_metrics_) names_.push_back(math::to_string(metric));
  std::ranges::copy_if(rank_metrics_, std::back_inserter(group_metrics_), math::is_of_groups);
  for (const math::Metric& metric : list_metrics_) names_.push_back(math::to_string(metric));
  if (new_items_ > 0) take_new_targets();
}

Evaluator::~Evaluator() = default;

std::unique_ptr<models::LoadedUsers> Evaluator::load_users(models::Scorer& model,
                                                           const data::HeldOutUsers& users) {
  return model.load_users(
      {users.fold_in.view(), users.features.view(), users.targets.view(), users.rows.begin});
}

void Evaluator::prepare(models::Scorer& model) {
  prepared_users_ = load_users(model, held_out_);
  if (new_items_ > 0) prepared_new_item_users_ = load_users(model, new_item_users_.held_out);
  prepared_model_ = &model;
}

void Evaluator::prepare_popularity() {
  if (popularity_prepared_) return;
  const bool unbiased = std::ranges::any_of(rank_metrics_, math::is_unbiased);
  std::int64_t needed = list_metrics_.empty() && group_metrics_.empty() && !unbiased ? 0 : 1;
  for (std::int64_t row = 0; row < held_out_.targets.rows(); ++row)
    if (held_out_.targets.view().row_size(row) > 0 && held_out_.fold_in.view().row_size(row) == 0) needed = 1;
  if (context_.communicator.all_reduce(needed, comm::Reduction::max) > 0) popularity();
  if (unbiased) gains_ = math::inverse_propensities(popularity_->counts());
  popularity_prepared_ = true;
}

std::shared_ptr<const Popularity> Evaluator::popularity() {
  if (!popularity_) popularity_ = std::make_shared<Popularity>(context_, dataset_);
  return popularity_;
}

void Evaluator::set_ranks(std::int64_t row, std::span<const std::int32_t> ranks, std::int64_t items,
                          Values& values) const {
  const std::span<const std::int32_t> targets = held_out_.targets.view().row(row);
  const std::int64_t users = held_out_.targets.rows();
  std::vector<double> gains;
  if (!gains_.empty())
    for (const std::int32_t target : targets) gains.push_back(gains_[target]);
  double* value = values.of_users.data() + row;
  for (const math::Metric& metric : rank_metrics_) {
    *value = math::metric_of_user(metric, ranks, items, gains);
    value += users;
  }
  if (group_metrics_.empty()) return;
  std::vector<std::int32_t> head;
  std::vector<std::int32_t> tail;
  for (std::size_t t = 0; t < targets.size(); ++t)
    (popularity_->is_in_head(targets[t]) ? head : tail).push_back(ranks[t]);
  for (std::size_t m = 0; m < group_metrics_.size(); ++m) {
    const auto at = m * static_cast<std::size_t>(users) + static_cast<std::size_t>(row);
    values.of_head[at] = math::metric_of_user(group_metrics_[m], head, items);
    values.of_tail[at] = math::metric_of_user(group_metrics_[m], tail, items);
  }
}

Evaluator::Values Evaluator::no_values() const {
  const auto users = static_cast<std::size_t>(held_out_.targets.rows());
  return {.of_users = std::vector<double>(names_.size() * users),
          .of_head = std::vector<double>(group_metrics_.size() * users),
          .of_tail = std::vector<double>(group_metrics_.size() * users),
          .lists = {catalog_metrics_.size(), std::vector<std::int64_t>(items_)}};
}

void Evaluator::set_list(std::int64_t row, std::span<const std::int32_t> list, Values& values) const {
  const std::int64_t users = held_out_.targets.rows();
  double* value = values.of_users.data() + std::ssize(rank_metrics_) * users + row;
  for (const math::Metric& metric : list_metrics_) {
    *value = popularity_->of_list(metric, list);
    value += users;
  }
  for (std::size_t m = 0; m < catalog_metrics_.size(); ++m) {
    const std::size_t length = std::min(list.size(), static_cast<std::size_t>(catalog_metrics_[m].k));
    for (const std::int32_t item : list.first(length))
      if (item >= 0) ++values.lists[m][item];
  }
}

void Evaluator::serve_by_popularity(CsrView features, Values& values) const {
  const CsrView targets = held_out_.targets.view();
  std::vector<std::int32_t> ranks;
  for (std::int64_t row = 0; row < targets.rows(); ++row) {
    if (targets.row_size(row) == 0 || !is_served_by_popularity(held_out_.fold_in.view(), features, row))
      continue;
    ranks.clear();
    for (const std::int32_t item : targets.row(row)) ranks.push_back(popularity_->positions()[item]);
    set_ranks(row, ranks, items_, values);
    set_list(row, popularity_->order().first(list_length_), values);
  }
}

EvaluationResult Evaluator::evaluate(models::Scorer& model, models::History history) {
  return std::move(evaluate_variants(model, history).front());
}

std::vector<EvaluationResult> Evaluator::evaluate_variants(models::Scorer& model, models::History history) {
  const bool prepared = prepared_model_ == &model;
  const std::unique_ptr<models::LoadedUsers> loaded = prepared ? nullptr : load_users(model, held_out_);
  models::LoadedUsers& users = prepared ? *prepared_users_ : *loaded;
  prepare_popularity();
  Activity& activity = context_.communicator.activity();
  const CsrView targets = held_out_.targets.view();
  const CsrView features = model.features() > 0 ? held_out_.features.view() : CsrView{};
  // Of this rank's users, about as many are done as of all.
  const auto report = [&](std::int64_t done) {
    activity.note_progress();
    context_.progress.update(done * all_users_ / std::max<std::int64_t>(1, targets.rows()));
  };
  if (new_items_ > 0) rank_among(model, false);
  context_.progress.begin(format("ranking for {} users", split_), all_users_, "users");
  const std::vector<std::int32_t> ranks = rank_targets(model, users, history, report);
  std::vector<Values> variants(static_cast<std::size_t>(model.variants()), no_values());

  if (list_length_ > 0) context_.progress.begin(format("lists of {} users", split_), all_users_, "users");
  const auto length = static_cast<std::size_t>(list_length_);
  const std::int64_t step = std::min(context_.device.facts().evaluation_batch, model.max_users());
  std::vector<std::int32_t> lists(variants.size() * static_cast<std::size_t>(step) * length);
  std::vector<float> scores(lists.size());
  for (std::int64_t begin = 0; length > 0 && begin < targets.rows(); begin += step) {
    const Range rows{begin, std::min(targets.rows(), begin + step)};
    const std::size_t size = variants.size() * static_cast<std::size_t>(rows.size()) * length;
    model.top_k(users, rows, history, false, list_length_, std::span(lists).first(size),
                std::span(scores).first(size));
    const Range own = model.own_users(rows.size());
    for (std::int64_t row = begin + own.begin; row < begin + own.end; ++row) {
      if (targets.row_size(row) == 0 || is_served_by_popularity(held_out_.fold_in.view(), features, row))
        continue;
      for (std::size_t v = 0; v < variants.size(); ++v) {
        const std::size_t number = v * static_cast<std::size_t>(rows.size()) + (row - rows.begin);
        const auto list = std::span(lists).subspan(number * length, length);
        // Fewer items than `length` may be left; excluded items may follow them.
        const auto end = std::ranges::find_if(list, [&](std::int32_t i) { return i < 0 || i >= items_; });
        set_list(row, list.first(end - list.begin()), variants[v]);
      }
    }
    report(rows.end);
  }
  context_.progress.end();
  std::vector<EvaluationResult> results;
  const auto* next = ranks.data();
  for (Values& values : variants) {
    if (model.divides_items()) {  // the other ranks of the model-parallel group have computed other lists
      comm::Communicator& group = context_.grid->model_parallel_ranks();
      group.all_reduce(std::span<double>(values.of_users));
      for (std::vector<std::int64_t>& of_metric : values.lists)
        group.all_reduce(std::span<std::int64_t>(of_metric));
    }
    for (std::int64_t row = 0; row < targets.rows(); ++row) {
      set_ranks(row, {next, static_cast<std::size_t>(targets.row_size(row))}, model.items(), values);
      next += targets.row_size(row);
    }
    serve_by_popularity(features, values);
    results.push_back(reduce(values));
  }
  if (new_items_ > 0) evaluate_new_items(model, history, results);
  return results;
}

std::vector<std::int32_t> Evaluator::rank_targets(models::Scorer& model, models::LoadedUsers& users,
                                                  models::History history,
                                                  const std::function<void(std::int64_t)>& report) const {
  std::vector<std::int32_t> ranks = model.rank_targets(users, history, report);
  if (!model.divides_items()) return ranks;
  // The other ranks of the model-parallel group have ranked the targets of other users.
  std::vector<std::int64_t> all(ranks.begin(), ranks.end());
  context_.grid->model_parallel_ranks().all_reduce(std::span<std::int64_t>(all));
  return {all.begin(), all.end()};
}

EvaluationResult Evaluator::evaluate(const Lists& lists) {
  prepare_popularity();
  const CsrView targets = held_out_.targets.view();
  Values values = no_values();
  constexpr std::int32_t none = std::numeric_limits<std::int32_t>::max();
  std::vector<std::int32_t> rank_of(items_, none);  // of the items in the user's list
  std::vector<std::int32_t> ranks;
  for (std::int64_t row = 0; row < targets.rows(); ++row) {
    if (targets.row_size(row) == 0) continue;
    const std::vector<std::int32_t>& list = lists[held_out_.rows.begin + row];
    for (std::size_t rank = 0; rank < list.size(); ++rank)
      if (list[rank] >= 0) rank_of[list[rank]] = static_cast<std::int32_t>(rank);
    ranks.clear();
    for (const std::int32_t item : targets.row(row)) ranks.push_back(rank_of[item]);
    for (const std::int32_t item : list)
      if (item >= 0) rank_of[item] = none;
    set_ranks(row, ranks, none, values);
    set_list(row, list, values);
  }
  return reduce(values);
}

Metrics Evaluator::ordered(Metrics metrics) const {
  std::ranges::stable_sort(metrics, {},
                           [&](const auto& metric) { return std::ranges::find(order_, metric.first); });
  return metrics;
}

Metrics Evaluator::means(const Values& values, UserSet of, std::int64_t users) const {
  const CsrView targets = held_out_.targets.view();
  const auto is_member = [&](std::int64_t row) {
    if (targets.row_size(row) == 0) return false;
    return of == UserSet::all ||
           (held_out_.fold_in.view().row_size(row) > 0) == (of == UserSet::with_history);
  };
  std::vector<double> moments;
  const double* value = values.of_users.data();
  for (std::size_t m = 0; m < names_.size(); ++m) {
    math::MetricSums sums;
    for (std::int64_t row = 0; row < targets.rows(); ++row, ++value)
      if (is_member(row)) sums.add(*value);
    moments.insert(moments.end(), {sums.sum, sums.sum_of_squares});
  }
  context_.data_parallel_ranks().all_reduce(std::span<double>(moments));
  Metrics means;
  for (std::size_t m = 0; m < names_.size(); ++m) {
    const math::MetricSums total{moments[2 * m], moments[2 * m + 1], users};
    means.emplace_back(names_[m], MetricValue{total.mean(), total.standard_error()});
  }
  return ordered(std::move(means));
}

EvaluationResult Evaluator::reduce(Values& values) const {
  const CsrView targets = held_out_.targets.view();
  std::array<std::int64_t, 3> users{};
  for (std::int64_t row = 0; row < targets.rows(); ++row) {
    const bool counts = targets.row_size(row) > 0;
    ++users[counts ? 0 : 1];
    if (counts && held_out_.fold_in.view().row_size(row) == 0) ++users[2];
  }
  context_.data_parallel_ranks().all_reduce(std::span<std::int64_t>(users));

  EvaluationResult result;
  result.users = users[0];
  result.users_without_target = users[1];
  result.users_without_history = users[2];
  result.metrics = means(values, UserSet::all, result.users);
  if (users[2] > 0 && users[2] < users[0]) {
    result.with_history = means(values, UserSet::with_history, users[0] - users[2]);
    result.without_history = means(values, UserSet::without_history, users[2]);
  }
  auto value = values.of_users.begin();
  for (const std::string& name : names_) {
    result.of_users[name].assign(value, value + targets.rows());
    value += targets.rows();
  }
  for (std::size_t m = 0; m < catalog_metrics_.size(); ++m) {
    context_.data_parallel_ranks().all_reduce(std::span<std::int64_t>(values.lists[m]));
    const double total = math::catalog_metric(catalog_metrics_[m])(values.lists[m]);
    result.metrics.emplace_back(math::to_string(catalog_metrics_[m]), MetricValue{total, std::nullopt});
  }
  result.metrics = ordered(std::move(result.metrics));
  if (group_metrics_.empty()) return result;
  std::vector<std::int64_t> in_head;
  std::vector<std::int64_t> in_tail;
  for (std::int64_t row = 0; row < targets.rows(); ++row) {
    in_head.push_back(std::ranges::count_if(
        targets.row(row), [&](std::int32_t item) { return popularity_->is_in_head(item); }));
    in_tail.push_back(targets.row_size(row) - in_head.back());
  }
  result.head = reduce_group(values.of_head, std::move(in_head));
  result.tail = reduce_group(values.of_tail, std::move(in_tail));
  return result;
}

TargetGroupResult Evaluator::reduce_group(std::span<const double> values,
                                          std::vector<std::int64_t> targets) const {
  std::vector<double> sums = {0.0};
  TargetGroupResult result{.targets = std::move(targets)};
  for (const std::int64_t of_user : result.targets) sums[0] += of_user > 0 ? 1.0 : 0.0;
  for (std::size_t m = 0; m < group_metrics_.size(); ++m) {
    const auto of_metric = values.subspan(m * result.targets.size(), result.targets.size());
    math::MetricSums of_group;
    for (std::size_t row = 0; row < of_metric.size(); ++row)
      if (result.targets[row] > 0) of_group.add(of_metric[row]);
    sums.insert(sums.end(), {of_group.sum, of_group.sum_of_squares});
    result.of_users[math::to_string(group_metrics_[m])].assign(of_metric.begin(), of_metric.end());
  }
  context_.data_parallel_ranks().all_reduce(std::span<double>(sums));
  result.users = static_cast<std::int64_t>(sums[0]);
  for (std::size_t m = 0; m < group_metrics_.size(); ++m) {
    const math::MetricSums total{sums[2 * m + 1], sums[2 * m + 2], result.users};
    result.metrics.emplace_back(math::to_string(group_metrics_[m]),
                                MetricValue{total.mean(), total.standard_error()});
  }
  result.metrics = ordered(std::move(result.metrics));
  return result;
}

}  // namespace vaecf::evaluate
