#pragma once

#include <vaecf/comm/communicator.hpp>
#include <vaecf/context/context.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/math/metrics.hpp>
#include <vaecf/math/ranking.hpp>
#include <vaecf/models/model.hpp>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace vaecf::models {

/// Calls use(column, value) for each element of a row, in loops of their own for ones and for values.
template <class Use>
void for_elements(const SparseRow& row, const Use& use) {
  if (row.values.empty()) {
    for (const std::int32_t column : row.columns) use(column, 1.0F);
  } else {
    for (std::size_t k = 0; k < row.columns.size(); ++k) use(row.columns[k], row.values[k]);
  }
}

/// The name of a dense matrix B (items, items) in a checkpoint; the row is the source item.
inline constexpr const char* matrix_name = "weights/items/matrix";

/// The weights of an item model in a checkpoint. They refer to the memory of the model or to `owned`.
struct StoredWeights {
  std::vector<io::TensorSource> tensors;
  std::vector<io::ArraySource> arrays;
  std::vector<float> owned = {};
};

/// A model that scores all items without a network: by the sum of x_ui B_ij over the user's items i or,
/// without B, by popularity.
class ItemModel {
 public:
  virtual ~ItemModel() = default;
  /// Writes the scores of all items for a user x, given as `history`. Thread-safe.
  virtual void score(const SparseRow& history, std::span<float> scores) const = 0;
  /// Returns B_ij, the weight of item i = `source` in the score of item j = `target`; 0 without B.
  virtual float weight(std::int32_t /*source*/, std::int32_t /*target*/) const { return 0.0F; }
  /// Returns what a checkpoint of this model contains.
  virtual StoredWeights stored() const = 0;
  /// Returns whether stored() has a dense matrix B.
  virtual bool is_dense() const { return false; }
};

/// The weights B (items, items) of an item model in compressed sparse row form. The row is the source item,
/// the column the target item; columns are ascending.
struct SparseWeights final : ItemModel {
  std::vector<std::int64_t> indptr{0};  ///< (items + 1)
  std::vector<std::int32_t> indices;
  std::vector<float> data;

  void score(const SparseRow& history, std::span<float> scores) const override;
  float weight(std::int32_t source, std::int32_t target) const override;
  StoredWeights stored() const override {
    return {
        {},
        {{"weights/items/indptr", indptr}, {"weights/items/indices", indices}, {"weights/items/data", data}}};
  }
};

/// The neighbors of one item, with weights.
struct NeighborList {
  std::vector<std::int32_t> neighbors;
  std::vector<float> weights;
};

/// Returns the number of lists that rank `rank` of `ranks` computes for `items` items. List s of rank r is of
/// the item order[s R + r], for an order of the items that is the same on all R ranks.
inline std::int64_t list_count(std::int64_t items, int rank, int ranks) {
  return (items - rank + ranks - 1) / ranks;
}

/// The direction of the weights in a NeighborList.
enum class ListDirection { sources_of_target, targets_of_source };

/// Returns the weights in the lists of all ranks, on every rank. Collective.
SparseWeights gather_weights(std::vector<NeighborList> own, std::span<const std::int32_t> order,
                             ListDirection direction, comm::Communicator& ranks, int threads);

/// Returns the number of threads with which a rank computes item models.
int item_model_threads(const Context& context);

/// Makes a scorer of a model with weights between `items` items: on this rank's GPU if the weights are dense
/// and fit into its memory, otherwise on the CPU. The device of `context` must outlive it.
std::unique_ptr<Scorer> make_item_scorer(std::shared_ptr<const ItemModel> model, std::int64_t items,
                                         const Context& context);

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
  std::unique_ptr<LoadedUsers> load_users(const UserData& users) override;
  std::vector<double> evaluate(LoadedUsers& users, History history, std::span<const math::Metric> metrics,
                               const std::function<void(std::int64_t users)>& progressed) override;
  void top_k(LoadedUsers& users, Range rows, History history, bool keep_seen, int k,
             std::span<std::int32_t> items, std::span<float> scores) override;
  std::int64_t max_users() const override { return std::numeric_limits<std::int64_t>::max(); }
  void restrict_to(std::span<const std::uint8_t> allowed_items) override;

 private:
  /// Writes the scores of all items for a user with the items `seen`. Excluded items and, unless `keep_seen`
  /// is set, those that the user has, get -infinity.
  void score(const SparseRow& seen, History history, bool keep_seen, std::span<float> scores) const;

  std::shared_ptr<const ItemModel> model_;
  std::int64_t items_;
  int threads_;
  std::vector<std::int32_t> excluded_;
};

/// Numbers of train users.
struct TrainUserCounts {
  std::vector<std::int64_t> of_item;  ///< number of train users of each item
  std::int64_t with_items = 0;        ///< number of train users with an item
};

/// Counts the users of /train. Each rank reads an equal part. Collective.
TrainUserCounts count_train_users(const Context& context, const io::DatasetFile& dataset);

/// Returns whether user `row` is served the most popular items, because a model has no input for it: neither
/// items nor, if it uses them, features.
inline bool is_served_by_popularity(CsrView items, CsrView features, std::int64_t row) {
  return items.row_size(row) == 0 && (features.rows() == 0 || features.row_size(row) == 0);
}

/// The popularity baseline: ranks items by their number of training users, and ties by ascending item, for
/// every user alike.
class Popularity final : public ItemModel {
 public:
  /// Counts items in /train. Collective.
  Popularity(const Context& context, const io::DatasetFile& dataset);
  /// Uses the given number of users of each item, of `users` users with an item in total.
  Popularity(std::vector<std::int64_t> counts, std::int64_t users);

  /// Writes minus the position of each item in order(), whatever the history.
  void score(const SparseRow& history, std::span<float> scores) const override;
  StoredWeights stored() const override { return {}; }

  /// Returns all items, the most popular first.
  std::span<const std::int32_t> order() const { return order_; }
  /// Returns the position of each item in order().
  std::span<const std::int32_t> positions() const { return position_; }
  /// Returns the number of train users of each item.
  std::span<const std::int64_t> counts() const { return counts_; }
  /// Returns `metric` of one user's list, a mean over its first k places without those of -1; 0 if there is
  /// none.
  /// - popularity: number of train users (Yin et al., VLDB 2012).
  /// - tail: 1 unless the item is in the head, which are the fewest most popular items with at least 80 % of
  ///   all interactions (Abdollahpouri, Burke and Mobasher, FLAIRS 2019).
  /// - novelty: -log2(train users of the item / train users with an item), the self-information (Zhou et al.,
  ///   PNAS 2010). An item without train users counts as one with a single user.
  double of_list(const math::Metric& metric, std::span<const std::int32_t> list) const;

 private:
  explicit Popularity(TrainUserCounts counted);

  std::vector<std::int64_t> counts_;
  double users_;
  std::int32_t head_ = 0;               // number of items of the head
  std::vector<std::int32_t> order_;     // items by descending popularity
  std::vector<std::int32_t> position_;  // position of each item in order_
};

}  // namespace vaecf::models
