#pragma once

#include <vaecf/device/device.hpp>
#include <vaecf/math/metrics.hpp>
#include <vaecf/models/kind.hpp>
#include <vaecf/models/model.hpp>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace vaecf::models {

/// Makes a scorer of x B for users x and a dense matrix B (items, items) of weights between items, whose rows
/// `read_rows` writes. `device` must outlive it. Returns null if the device leaves such scores to the host: a
/// CPU, or a GPU whose free memory B exceeds.
std::unique_ptr<Scorer> make_matrix_scorer(
    device::Device& device, std::int64_t items,
    const std::function<void(std::int64_t begin, std::int64_t end, std::span<float> out)>& read_rows);

/// Ranks the items by the scores of an item model, on the CPU with several threads.
class ItemScorer final : public Scorer {
 public:
  /// `model` has weights between `items` items.
  ItemScorer(std::shared_ptr<const ItemModel> model, std::int64_t items, int threads)
      : model_(std::move(model)), items_(items), threads_(threads) {}

  std::int64_t items() const override { return items_; }
  std::int64_t features() const override { return 0; }
  std::int64_t variants() const override { return model_->variants(); }
  std::unique_ptr<LoadedUsers> load_users(const UserData& users) override;
  std::vector<std::int32_t> rank_targets(LoadedUsers& users, History history,
                                         const std::function<void(std::int64_t users)>& progressed) override;
  void top_k(LoadedUsers& users, Range rows, History history, bool keep_seen, int k,
             std::span<std::int32_t> items, std::span<float> scores) override;
  bool for_each_ranked(LoadedUsers& users, Range rows, bool keep_seen, std::int64_t first,
                       const Take& take) override;
  std::int64_t max_users() const override { return std::numeric_limits<std::int64_t>::max(); }
  void restrict_to(std::span<const std::uint8_t> allowed_items) override;
  void similarities(std::span<const std::int32_t> items, std::span<float> out) const override {
    for (std::size_t n = 0; n < items.size(); ++n)
      model_->read_row(items[n], out.subspan(n * items_, items_));
  }
  std::unique_ptr<Scorer> share() const override {
    return std::make_unique<ItemScorer>(model_, items_, threads_);
  }

 private:
  /// Calls use(row, variant, scores of all items) for each of the users `rows`, on several threads. Excluded
  /// items and, unless `keep_seen` is set, those that the user has, have the score -infinity.
  template <class Use>
  void for_each_user(const UserData& users, Range rows, History history, bool keep_seen,
                     const Use& use) const;

  std::shared_ptr<const ItemModel> model_;
  std::int64_t items_;
  int threads_;
  std::vector<std::int32_t> excluded_;
};

}  // namespace vaecf::models
