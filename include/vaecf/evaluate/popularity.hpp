#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/context/context.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/math/metrics.hpp>
#include <vaecf/models/kind.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vaecf::evaluate {

/// Returns whether user `row` is served the most popular items, because a model has no input for it: neither
/// items nor, if it uses them, features.
inline bool is_served_by_popularity(CsrView items, CsrView features, std::int64_t row) {
  return items.row_size(row) == 0 && (features.rows() == 0 || features.row_size(row) == 0);
}

/// The popularity baseline: ranks items by their number of training users, and ties by ascending item, for
/// every user alike.
class Popularity final : public models::ItemModel {
 public:
  /// Counts items in /train. Collective.
  Popularity(const Context& context, const io::DatasetFile& dataset);
  /// Uses the given number of users of each item, of `users` users with an item in total.
  Popularity(std::vector<std::int64_t> counts, std::int64_t users);

  /// Writes minus the position of each item in order(), whatever the history.
  void score(const SparseRow& history, std::span<float> scores) const override;
  models::StoredWeights stored() const override { return {}; }

  /// Returns all items, the most popular first.
  std::span<const std::int32_t> order() const { return order_; }
  /// Returns the position of each item in order().
  std::span<const std::int32_t> positions() const { return position_; }
  /// Returns the number of train users of each item.
  std::span<const std::int64_t> counts() const { return counts_; }
  /// Returns whether the item is in the head: the fewest most popular items with at least 80 % of all
  /// interactions (Abdollahpouri, Burke and Mobasher, FLAIRS 2019).
  bool is_in_head(std::int32_t item) const { return position_[item] < head_; }
  /// Returns `metric` of one user's list, a mean over its first k places without those of -1; 0 if there is
  /// none.
  /// - popularity: number of train users (Yin et al., VLDB 2012).
  /// - tail: 1 unless the item is in the head.
  /// - novelty: -log2(train users of the item / train users with an item), the self-information (Zhou et al.,
  ///   PNAS 2010). An item without train users counts as one with a single user.
  double of_list(const math::Metric& metric, std::span<const std::int32_t> list) const;

 private:
  explicit Popularity(models::TrainUserCounts counted);

  std::vector<std::int64_t> counts_;
  double users_;
  std::int32_t head_ = 0;               // number of items of the head
  std::vector<std::int32_t> order_;     // items by descending popularity
  std::vector<std::int32_t> position_;  // position of each item in order_
};

}  // namespace vaecf::evaluate
