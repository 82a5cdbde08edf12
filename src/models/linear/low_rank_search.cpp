#include "models/linear/low_rank_search.hpp"

#include <vaecf/base/parallel_for.hpp>
#include <vaecf/math/ranking.hpp>

#include <algorithm>
#include <utility>
#include <vector>

#include "models/linear/low_rank.hpp"
#include "models/linear/memory.hpp"
#include "models/linear/sparse_weights.hpp"

namespace vaecf::models {
namespace {

/// Returns the largest width of the basis; 0: no term.
std::int64_t most_factors(const LowRankOptions& options) {
  return *std::ranges::max_element(options.factors);
}

/// The values of one term; without factors there is none.
struct TermValues {
  std::int64_t factors = 0;
  double weight = 0.0;
  double power = 0.0;
};

/// Returns the terms in the order of the search: those with the same basis and then those with the same power
/// follow each other.
std::vector<TermValues> terms_of(const LowRankOptions& options) {
  std::vector<TermValues> all;
  for (const std::int64_t factors : options.factors) {
    if (factors == 0) {
      all.push_back({});
      continue;
    }
    for (const double power : options.power)
      for (const double weight : options.weight) all.push_back({factors, weight, power});
  }
  return all;
}

/// A model with each of several terms of one basis. The scores of users without the term are computed once,
/// and those of the term once for each power.
class LowRankVariants final : public ItemModel {
 public:
  LowRankVariants(std::shared_ptr<const ItemModel> base, std::shared_ptr<const LowRankBasis> basis,
                  std::vector<TermValues> values, std::int64_t items, int threads)
      : base_(std::move(base)), values_(std::move(values)) {
    for (const TermValues& of : values_) {
      if (terms_.empty())
        terms_.emplace_back(basis, of.weight, of.power);
      else
        terms_.emplace_back(terms_.front(), of.weight, of.power);
    }
    first_ = add_low_rank(base_, terms_.front(), items, threads);
  }

  std::int64_t variants() const override { return std::ssize(terms_); }
  void score_variants(std::span<const SparseRow> users, std::span<float> scores,
                      const std::function<void(std::int64_t variant)>& use) const override {
    thread_local std::vector<float> without, products;
    without.resize(scores.size());
    products.resize(scores.size());
    base_->score_all(users, without);
    for (std::size_t v = 0; v < terms_.size(); ++v) {
      if (v == 0 || values_[v].power != values_[v - 1].power) terms_[v].multiply(users, products);
      std::ranges::copy(without, scores.begin());
      terms_[v].add_scores(users, products, scores);
      use(static_cast<std::int64_t>(v));
    }
  }

  void score(const SparseRow& history, std::span<float> scores) const override {
    first_->score(history, scores);
  }
  void score_all(std::span<const SparseRow> users, std::span<float> scores) const override {
    first_->score_all(users, scores);
  }
  float weight(std::int32_t source, std::int32_t target) const override {
    return first_->weight(source, target);
  }
  StoredWeights stored() const override { return first_->stored(); }
  bool is_dense() const override { return first_->is_dense(); }
  std::int64_t users_at_once() const override { return LowRankTerm::max_at_once; }

 private:
  std::shared_ptr<const ItemModel> base_, first_;
  std::vector<TermValues> values_;
  std::vector<LowRankTerm> terms_;
};

/// Returns the columns of the sparse weights of a model.
Csr columns_of(const ItemModel& model, std::int64_t items) {
  const StoredWeights stored = model.stored();
  Csr rows;
  const auto copy = [&]<class T>(std::size_t array, std::vector<T>& to) {
    const auto values = std::get<std::span<const T>>(stored.arrays.at(array).values);
    to.assign(values.begin(), values.end());
  };
  copy(0, rows.offsets);
  copy(1, rows.columns);
  copy(2, rows.values);
  return make_interactions(std::move(rows), items).items;
}

/// Returns the `keep` largest elements of each column of the sum of sparse weights and the term.
std::shared_ptr<const ItemModel> fold(const ItemModel& base, const LowRankTerm& term, std::int64_t items,
                                      std::int64_t keep, comm::Communicator& ranks, int threads) {
  const std::int64_t lists = list_count(items, ranks.rank(), ranks.size());
  std::vector<NeighborList> own(static_cast<std::size_t>(lists));
  const std::vector<std::int32_t> order = ascending_order(items);
  const Csr base_columns = columns_of(base, items);
  const auto most = static_cast<std::size_t>(std::min(keep, items - 1));
  constexpr std::int64_t at_once = LowRankTerm::max_at_once;
  parallel_for(
      threads, {0, (lists + at_once - 1) / at_once},
      [&](std::int64_t part) {
        std::vector<std::int32_t> targets;
        for (std::int64_t list = part * at_once; list < std::min(lists, (part + 1) * at_once); ++list)
          targets.push_back(static_cast<std::int32_t>(list * ranks.size() + ranks.rank()));
        std::vector<float> columns(targets.size() * order.size());
        term.read_columns(targets, columns);
        for (std::size_t n = 0; n < targets.size(); ++n) {
          const std::span<float> column = std::span(columns).subspan(n * order.size(), order.size());
          for_elements(base_columns.view().sparse_row(targets[n]),
                       [&](std::int32_t i, float weight) { column[static_cast<std::size_t>(i)] += weight; });
          std::vector<std::int32_t> sources = order;
          sources.erase(sources.begin() + targets[n]);
          const auto ahead = [&](std::int32_t a, std::int32_t b) {
            return math::ranks_ahead(column[static_cast<std::size_t>(a)], a,
                                     column[static_cast<std::size_t>(b)], b);
          };
          if (most < sources.size()) {
            std::ranges::nth_element(sources, sources.begin() + static_cast<std::ptrdiff_t>(most), ahead);
            sources.resize(most);
          }
          NeighborList& to = own[static_cast<std::size_t>(part * at_once) + n];
          to.neighbors = std::move(sources);
          for (const std::int32_t i : to.neighbors) to.weights.push_back(column[static_cast<std::size_t>(i)]);
        }
      },
      [&](std::int64_t) { ranks.activity().note_progress(); }, 1);
  return std::make_shared<SparseWeights>(
      gather_weights(std::move(own), order, ListDirection::sources_of_target, ranks, threads));
}

class LowRankSearch final : public Search {
 public:
  LowRankSearch(std::unique_ptr<Search> search, bool dense, const LowRankOptions& options,
                std::vector<TermValues> terms)
      : search_(std::move(search)),
        iterations_(options.iterations),
        keep_(dense ? 0 : options.keep),
        terms_(std::move(terms)) {}

  std::int64_t size() const override { return search_->size() + std::ssize(terms_) - 1; }
  std::int64_t computed(std::int64_t done) const override {
    // The other terms need the best solution again, unless it is the last one.
    const bool again = done < size() && (search_->size() > 1 || done > 0) && terms_.size() > 1;
    return search_->computed(std::min(done, search_->size())) + (again ? 1 : 0);
  }
  std::string unit() const override { return search_->unit(); }
  std::string reused(std::int64_t n) const override {
    if (n < search_->size()) return search_->reused(n);
    const bool has_basis = terms_[term_of(n)].factors == factors_;
    return base_ && solved_ == best_ && has_basis ? "with the same solution" : "";
  }

  std::shared_ptr<const ItemModel> solve(std::int64_t n, const Interactions& train, const Context& context,
                                         int threads) override {
    const TermValues& term = terms_[term_of(n)];
    if (!prepare(n, train, context, threads)) return nullptr;
    if (term.factors == 0) return base_;
    LowRankTerm of_basis(basis_, term.weight, term.power);
    const std::int64_t items = train.items.rows();
    if (keep_ == 0) return add_low_rank(base_, std::move(of_basis), items, threads);
    return fold(*base_, of_basis, items, keep_, context.communicator, threads);
  }

  std::int64_t together(std::int64_t n) const override {
    const std::size_t first = term_of(n);
    std::size_t end = first + 1;
    if (n >= search_->size() && keep_ == 0)
      while (end < terms_.size() && terms_[end].factors == terms_[first].factors) ++end;
    return static_cast<std::int64_t>(end - first);
  }

  std::shared_ptr<const ItemModel> solve_together(std::int64_t n, const Interactions& train,
                                                  const Context& context, int threads) override {
    const std::int64_t count = together(n);
    if (count == 1) return solve(n, train, context, threads);
    if (!prepare(n, train, context, threads)) return nullptr;
    const auto first = terms_.begin() + static_cast<std::ptrdiff_t>(term_of(n));
    return std::make_shared<LowRankVariants>(base_, basis_, std::vector(first, first + count),
                                             train.items.rows(), threads);
  }

  void note_best(std::int64_t n) override {
    if (n < search_->size()) best_ = n;
  }

  std::string title(std::int64_t n) const override {
    const Values all = values(n);
    return search_->title(solution_of(n)) + low_rank_title({all.begin(), all.end()});
  }
  Values values(std::int64_t n) const override {
    const TermValues& term = terms_[term_of(n)];
    Values values = search_->values(solution_of(n));
    values.emplace_back("low_rank_factors", term.factors);
    values.emplace_back("low_rank_weight", term.weight);
    values.emplace_back("low_rank_power", term.power);
    return values;
  }

 private:
  std::size_t term_of(std::int64_t n) const {
    return static_cast<std::size_t>(std::max<std::int64_t>(0, n - search_->size() + 1));
  }
  /// Returns the solution without the term from which solution `n` follows.
  std::int64_t solution_of(std::int64_t n) const { return n < search_->size() ? n : best_; }

  /// Computes the basis and the solution without the term of solution `n`, unless they are those of the last
  /// one. Returns false if the run was asked to stop.
  bool prepare(std::int64_t n, const Interactions& train, const Context& context, int threads) {
    const std::int64_t factors = terms_[term_of(n)].factors;
    if (factors > 0 && factors != factors_) {
      basis_.reset();
      factors_ = 0;
      basis_ = make_low_rank_basis(train, factors, iterations_, context, threads);
      if (!basis_) return false;
      factors_ = factors;
    }
    if (!base_ || solved_ != solution_of(n)) {
      base_.reset();
      solved_ = solution_of(n);
      base_ = search_->solve(solved_, train, context, threads);
    }
    return base_ != nullptr;
  }

  std::unique_ptr<Search> search_;
  std::int64_t iterations_;
  std::int64_t keep_;
  std::vector<TermValues> terms_;
  std::int64_t best_ = 0;  // of the solutions of search_
  // Of the last solution:
  std::shared_ptr<const LowRankBasis> basis_;
  std::int64_t factors_ = 0;
  std::shared_ptr<const ItemModel> base_;
  std::int64_t solved_ = 0;
};

}  // namespace

std::unique_ptr<Search> with_low_rank(std::unique_ptr<Search> search, bool dense,
                                      const LowRankOptions& options, bool single) {
  if (most_factors(options) == 0) return search;
  std::vector<TermValues> terms = terms_of(options);
  if (single) terms.resize(1);
  return std::make_unique<LowRankSearch>(std::move(search), dense, options, std::move(terms));
}

Cost with_low_rank_cost(Cost cost, bool dense, const LowRankOptions& options, const Workload& work) {
  if (most_factors(options) == 0) return cost;
  const std::int64_t count = work.inputs.items;
  const auto items = static_cast<double>(count);
  const std::int64_t most = std::min(most_factors(options), count);
  const bool folds = !dense && options.keep > 0;
  const double terms = folds ? static_cast<double>(options.power.size() * options.weight.size()) : 1.0;
  for (const std::int64_t of_list : options.factors) {
    const auto factors = static_cast<double>(std::min(of_list, count));
    cost.operations_once += low_rank_basis_operations(items, static_cast<double>(work.train_entries), factors,
                                                      static_cast<double>(options.iterations));
    if (dense || folds) cost.operations_once += terms * 2.0 * items * items * factors;
  }
  if (folds) {
    cost.parameters = count * std::min(options.keep, count);
    cost.checkpoint_bytes = sparse_checkpoint_bytes(count, cost.parameters);
    cost.host_bytes += sparse_weight_bytes(count, cost.parameters, work.context.communicator);
  } else if (!dense) {
    cost.parameters += count * most;
    cost.checkpoint_bytes += 4.0 * items * (static_cast<double>(most) + 2.0);
  }
  const auto width = static_cast<double>(LowRankBasis::rounded_up(most));
  const double basis = 4.0 * items * width;
  const double made = basis + 4.0 * static_cast<double>(work.train_users) * width + 3.0 * 8.0 * width * width;
  cost.host_bytes =
      options.factors.size() > 1 ? made + cost.host_bytes : std::max(made, basis + cost.host_bytes);
  return cost;
}

std::vector<std::string> low_rank_without_effect(const LowRankOptions& options) {
  if (most_factors(options) > 0) return {};
  return {"model.low_rank.weight", "model.low_rank.power", "model.low_rank.iterations",
          "model.low_rank.keep"};
}

}  // namespace vaecf::models
