#pragma once

#include <vaecf/context/context.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/models/interactions.hpp>
#include <vaecf/models/item_model.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace vaecf::models {

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
