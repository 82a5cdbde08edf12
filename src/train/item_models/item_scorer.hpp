#pragma once

#include <vaecf/model/model.hpp>
#include <vaecf/train/train.hpp>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "train/item_models/item_model.hpp"

namespace vaecf::train {

/// Returns the number of threads with which a rank computes item models.
int item_model_threads(const RunContext& context);

/// Makes a scorer of a model with weights between `items` items: on this rank's GPU if the weights are dense
/// and fit into its memory, otherwise on the CPU. The device of `context` must outlive it.
std::unique_ptr<model::Scorer> make_item_scorer(std::shared_ptr<const ItemModel> model, std::int64_t items,
                                                const RunContext& context);

/// Ranks the items by the scores of an item model, on the CPU with several threads.
class ItemScorer final : public model::Scorer {
 public:
  /// `model` has weights between `items` items.
  ItemScorer(std::shared_ptr<const ItemModel> model, std::int64_t items, int threads)
      : model_(std::move(model)), items_(items), threads_(threads) {}

  std::int64_t items() const override { return items_; }
  std::int64_t features() const override { return 0; }
  std::unique_ptr<model::LoadedUsers> load_users(const model::UserData& users) override;
  std::vector<double> evaluate(model::LoadedUsers& users, model::History history,
                               std::span<const math::Metric> metrics,
                               const std::function<void(std::int64_t users)>& progressed) override;
  void top_k(model::LoadedUsers& users, Range rows, model::History history, bool keep_seen, int k,
             std::span<std::int32_t> items, std::span<float> scores) override;
  std::int64_t max_users() const override { return std::numeric_limits<std::int64_t>::max(); }
  void exclude_items(std::span<const std::uint8_t> allowed_items) override;

 private:
  /// Writes the scores of all items for a user with the items `seen`. Excluded items and, unless `keep_seen`
  /// is set, those that the user has, get -infinity.
  void score(std::span<const std::int32_t> seen, model::History history, bool keep_seen,
             std::span<float> scores) const;

  std::shared_ptr<const ItemModel> model_;
  std::int64_t items_;
  int threads_;
  std::vector<std::int32_t> excluded_;
};

}  // namespace vaecf::train
