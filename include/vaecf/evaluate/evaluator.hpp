#pragma once

#include <vaecf/context/context.hpp>
#include <vaecf/data/shards.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/io/model_export.hpp>
#include <vaecf/math/metrics.hpp>
#include <vaecf/models/model.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace vaecf::evaluate {

class Popularity;

/// A metric's mean over users and the standard error of the mean.
struct MetricValue {
  double mean = 0.0;
  std::optional<double> standard_error = 0.0;  ///< empty for coverage and gini, which are not means
};
/// Metrics with their names, such as "ndcg@100", in the order of the configuration.
class Metrics : public std::vector<std::pair<std::string, MetricValue>> {
 public:
  using std::vector<std::pair<std::string, MetricValue>>::vector;

  const_iterator find(const std::string& name) const {
    return std::ranges::find(*this, name, &value_type::first);
  }
  bool contains(const std::string& name) const { return find(name) != end(); }
  /// Throws std::out_of_range if there is no metric of this name.
  const MetricValue& at(const std::string& name) const {
    const auto found = find(name);
    if (found == end()) throw std::out_of_range("no metric " + name);
    return found->second;
  }
};

/// The metrics of the users with new items (DatasetFile::new_items) among their targets. Only new items are
/// ranked, and only they are targets.
struct NewItemsResult {
  std::int64_t items = 0;  ///< number of new items
  std::int64_t users = 0;  ///< number of these users
  Metrics metrics = {};    ///< those that follow from the ranks of targets
  Metrics random = {};     ///< their expectations if new items are in random order
  /// The metrics of each of this rank's users, in the order of the dataset.
  std::map<std::string, std::vector<double>> of_users = {};
};

/// Recall and NDCG of targets of one kind alone, of the users who have such targets.
struct TargetGroupResult {
  std::int64_t users = 0;  ///< number of these users
  Metrics metrics = {};
  /// The number of such targets of each of this rank's users, in the order of the dataset.
  std::vector<std::int64_t> targets = {};
  /// The metrics of each of this rank's users; 0 without such a target.
  std::map<std::string, std::vector<double>> of_users = {};
};

/// The metrics of all users of a split. Except for `new_items`, they are as if new items did not exist.
struct EvaluationResult {
  std::int64_t users = 0;                 ///< number of users with at least one target
  std::int64_t users_without_target = 0;  ///< number of excluded users
  Metrics metrics;
  std::int64_t users_without_history = 0;  ///< number of `users` without fold-in items
  /// The metrics that are means over users, for users with and without fold-in items; empty unless there are
  /// both.
  Metrics with_history = {};
  Metrics without_history = {};
  /// The metrics that are means over users, of each of this rank's users, in the order of the dataset; 0
  /// without a target.
  std::map<std::string, std::vector<double>> of_users = {};
  /// Targets in the head: the fewest most popular items with 80 % of the train interactions; and in the tail:
  /// all others. Without metrics if none of those of the evaluation is recall or NDCG.
  TargetGroupResult head = {};
  TargetGroupResult tail = {};
  /// Empty if no user has a new item as target.
  std::optional<NewItemsResult> new_items = {};
};

/// Recommended items of the users of a split, one list per user in the order of the dataset, best first; -1:
/// an item that the dataset does not have.
using Lists = std::vector<std::vector<std::int32_t>>;

/// Computes metrics of the held-out users of one split. Every rank, or model-parallel group,
/// evaluates its part of the users; sums in fp64 and user counts are reduced over ranks and divided once.
/// Results are equal on all ranks. A user without input for the model counts with the list of the most
/// popular items, which `recommend` gives to such users.
class Evaluator {
 public:
  /// Reads this rank's users of `split` ("validation" or "test"). Throws InputError if a metric name is
  /// invalid.
  Evaluator(const Context& context, const io::DatasetFile& dataset, const std::string& split,
            const std::vector<std::string>& metrics);
  ~Evaluator();

  /// Copies this rank's users to the device of `model`, which must outlive this object: a lack of memory is
  /// then detected before the first evaluation, and evaluations of this model use the copy. Throws RunError
  /// if the memory is not available.
  void prepare(models::Scorer& model);
  /// Evaluates `model`: targets are ranked among all items except those of the fold-in. `history` selects
  /// whether the fold-in is also the model's input; it is excluded from the ranking in any case. New items
  /// and all others are ranked apart. Collective.
  EvaluationResult evaluate(models::Scorer& model, models::History history = models::History::items);
  /// Evaluates all variants of `model` (Scorer::variants()) together. Collective.
  std::vector<EvaluationResult> evaluate_variants(models::Scorer& model,
                                                  models::History history = models::History::items);
  /// Evaluates lists of all users of the split, from any program. Targets that are not in the user's list are
  /// misses. Items that the dataset does not have take a place; metrics of lists skip them. Collective.
  EvaluationResult evaluate(const Lists& lists);

  /// Returns the number of users of the split over all ranks, including those without targets.
  std::int64_t users() const { return all_users_; }
  const data::HeldOutUsers& held_out() const { return held_out_; }
  /// Returns the users that have a target, in the order of the dataset: their ids (rows of the split if the
  /// dataset has no ids), `history` and `targets` (numbers of items), `target_popularity` (mean number of
  /// train users of the targets), and each metric of `results` that is a mean over users, with a prefix for
  /// its name. New items are no targets here: the users who have some among their targets are in the columns
  /// "new_items/user_id", "new_items/targets" and "new_items/" with the name of each metric of new items.
  /// "head/targets" and "head/" with the name of each metric are those of targets in the head, and 0 without
  /// one; so are those of the tail.
  /// This object must have made the results. Equal on all ranks. Collective.
  io::UserColumns per_user(const std::vector<std::pair<std::string, const EvaluationResult*>>& results);
  /// Returns the numbers of train users of the items. Collective on the first call.
  std::shared_ptr<const Popularity> popularity();

 private:
  /// The metrics of one evaluation.
  struct Values;
  enum class UserSet { all, with_history, without_history };

  /// The users whose new items are ranked.
  struct NewItemUsers {
    data::HeldOutUsers held_out;     ///< targets: the new items only
    std::vector<std::int64_t> rows;  ///< their rows of the split
  };

  static std::unique_ptr<models::LoadedUsers> load_users(models::Scorer& model,
                                                         const data::HeldOutUsers& users);
  /// Moves the new items among the targets of held_out_ to new_item_users_.
  void take_new_targets();
  /// Excludes the new items, or all others, from the ranking.
  void rank_among(models::Scorer& model, bool new_items) const;
  /// Sets the results of the ranking among new items, one for each variant of `model`. They stay empty if no
  /// user has a new item as target. Collective.
  void evaluate_new_items(models::Scorer& model, models::History history,
                          std::span<EvaluationResult> results);
  /// Reduces the metrics (metrics, users) of new items over the ranks. Collective.
  std::optional<NewItemsResult> reduce_new_items(std::span<double> values, CsrView features) const;
  /// Returns the ids of the users in these rows of the split, or the rows if it has no ids.
  io::IdList ids_of(const std::vector<std::int64_t>& rows) const;
  /// Counts the train users of items, if any metric or user needs it. Collective on the first call.
  void prepare_popularity();
  /// Returns values that are 0.
  Values no_values() const;
  /// Returns the ranks of the targets of `users`, this rank's model-parallel group's. Collective in the
  /// group.
  std::vector<std::int32_t> rank_targets(models::Scorer& model, models::LoadedUsers& users,
                                         models::History history,
                                         const std::function<void(std::int64_t)>& report) const;
  /// Sets the metrics of a user whose targets have `ranks` among `items` items.
  void set_ranks(std::int64_t row, std::span<const std::int32_t> ranks, std::int64_t items,
                 Values& values) const;
  /// Sets the metrics of a user's list, which may contain -1.
  void set_list(std::int64_t row, std::span<const std::int32_t> list, Values& values) const;
  /// Sets the values of users for which the model has no input. `features`: those that it uses, or none.
  void serve_by_popularity(CsrView features, Values& values) const;
  /// Returns metrics in the order of the configuration.
  Metrics ordered(Metrics metrics) const;
  /// Returns the means over the users of a set that have a target, over all ranks. Collective.
  Metrics means(const Values& values, UserSet of, std::int64_t users) const;
  /// Reduces the values of this rank's model-parallel group over the model-parallel groups. Collective.
  EvaluationResult reduce(Values& values) const;
  /// Returns the means of the values (metrics, users) of a group over its users, of all ranks. Collective.
  TargetGroupResult reduce_group(std::span<const double> values, std::vector<std::int64_t> targets) const;

  std::vector<math::Metric> rank_metrics_;     // means over users, from the ranks of targets
  std::vector<math::Metric> list_metrics_;     // means over users, from their lists
  std::vector<math::Metric> catalog_metrics_;  // metrics of all lists together
  std::vector<math::Metric> group_metrics_;    // those of rank_metrics_ that head and tail have
  std::vector<std::string> names_;             // of rank_metrics_ and list_metrics_
  std::vector<std::string> order_;             // of all metrics, as configured
  int list_length_ = 0;                        // that the metrics need; 0: no lists
  Context context_;
  const io::DatasetFile& dataset_;
  std::string split_;
  std::int64_t items_;  // without new items, which are behind them
  std::int64_t new_items_;
  std::int64_t all_users_;
  data::HeldOutUsers held_out_;
  NewItemUsers new_item_users_;
  bool popularity_prepared_ = false;
  std::shared_ptr<const Popularity> popularity_;
  std::vector<double> gains_;  // of items, for unbiased metrics
  // This rank's users on the device of the prepared model.
  const models::Scorer* prepared_model_ = nullptr;
  std::unique_ptr<models::LoadedUsers> prepared_users_;
  std::unique_ptr<models::LoadedUsers> prepared_new_item_users_;
};

}  // namespace vaecf::evaluate
