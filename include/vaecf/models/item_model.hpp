#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/context/context.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/models/model.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vaecf::models {

/// The complete train matrix X (users, items), by users and by items, and what is known about the items.
struct Interactions {
  Csr users;          ///< items of each user
  Csr items;          ///< users of each item
  Csr features = {};  ///< features of each item; no rows if the dataset has none
};

/// Reads /train and /items/features. Every rank reads all rows.
Interactions read_interactions(const Context& context, const io::DatasetFile& dataset);
/// Returns `users` and its transpose for `items` items.
Interactions make_interactions(Csr users, std::int64_t items);

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
  /// Returns the number of users that score_all() is best called with, because they share what is read.
  virtual std::int64_t users_at_once() const { return 1; }
  /// Writes the scores of several users, (users, items), which have the same bits. Thread-safe.
  virtual void score_all(std::span<const SparseRow> users, std::span<float> scores) const {
    const std::size_t items = users.empty() ? 0 : scores.size() / users.size();
    for (std::size_t u = 0; u < users.size(); ++u) score(users[u], scores.subspan(u * items, items));
  }
  /// Returns the number of models in this one; at least 1. All other functions are about the first one.
  virtual std::int64_t variants() const { return 1; }
  /// Calls use(v) for each variant v, after writing its scores of several users to `scores`, which have the
  /// bits of score_all() of this model alone. Thread-safe.
  virtual void score_variants(std::span<const SparseRow> users, std::span<float> scores,
                              const std::function<void(std::int64_t variant)>& use) const {
    score_all(users, scores);
    use(0);
  }
  /// Returns B_ij, the weight of item i = `source` in the score of item j = `target`; 0 without B.
  virtual float weight(std::int32_t /*source*/, std::int32_t /*target*/) const { return 0.0F; }
  /// Writes row i = `source` of B, and -infinity for items without a weight. Thread-safe.
  virtual void read_row(std::int32_t source, std::span<float> row) const;
  /// Returns what a checkpoint of this model contains.
  virtual StoredWeights stored() const = 0;
  /// Returns whether stored() has a dense matrix B.
  virtual bool is_dense() const { return false; }
};

/// Returns the number of threads with which a rank computes item models.
int item_model_threads(const Context& context);

/// Makes a scorer of a model with weights between `items` items: on this rank's GPU if the weights are dense
/// and fit into its memory, otherwise on the CPU, as are several variants. The device of `context` must
/// outlive it.
std::unique_ptr<Scorer> make_item_scorer(std::shared_ptr<const ItemModel> model, std::int64_t items,
                                         const Context& context);

/// The solutions of a model that is solved, one for each combination of the values of its keys, in the order
/// in which they are computed: those that follow from one another are neighbors.
class Search {
 public:
  /// Names and values of a solution, for its event and its checkpoint.
  using Values = std::vector<std::pair<std::string, io::Attribute>>;

  virtual ~Search() = default;
  /// Returns the number of solutions; at least 1.
  virtual std::int64_t size() const = 0;
  /// Returns the number of solutions from `done` on that do not follow from the one before them.
  virtual std::int64_t computed(std::int64_t done) const = 0;
  /// Returns what computed() counts: "inverses".
  virtual std::string unit() const = 0;
  /// Returns how solution `n` follows at no cost from the last one that was solved: "with the same inverse";
  /// empty: it does not.
  virtual std::string reused(std::int64_t /*n*/) const { return {}; }
  /// Solves solution `n` of the train matrix, with `threads` threads per rank; afterwards every rank has all
  /// weights. Returns null on all ranks if the run was asked to stop. Solutions may share memory: the one
  /// before must not be used any more, and should be dropped first, so that the memory of one suffices.
  /// Collective. Throws InputError on all ranks if the values are not possible.
  virtual std::shared_ptr<const ItemModel> solve(std::int64_t n, const Interactions& train,
                                                 const Context& context, int threads) = 0;
  /// Returns the number of solutions, from `n` on, that solve_together() solves.
  virtual std::int64_t together(std::int64_t /*n*/) const { return 1; }
  /// Solves the solutions [n, n + together(n)) as solve() does, as the variants of one model
  /// (ItemModel::variants()).
  virtual std::shared_ptr<const ItemModel> solve_together(std::int64_t n, const Interactions& train,
                                                          const Context& context, int threads) {
    return solve(n, train, context, threads);
  }
  /// States that solution `n` is the best one so far. Later solutions may follow from it.
  virtual void note_best(std::int64_t /*n*/) {}
  /// Returns a name of solution `n` for tables.
  virtual std::string title(std::int64_t n) const = 0;
  virtual Values values(std::int64_t n) const = 0;
};

}  // namespace vaecf::models
