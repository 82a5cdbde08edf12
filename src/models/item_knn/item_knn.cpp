#include <vaecf/base/host.hpp>
#include <vaecf/models/kind.hpp>

#include <algorithm>

#include "models/item_knn/solve.hpp"
#include "models/linear/low_rank.hpp"
#include "models/linear/low_rank_search.hpp"
#include "models/linear/memory.hpp"
#include "models/own_keys.hpp"

namespace vaecf::models {
namespace {

/// The only solution for the values of model.item_knn.
class ItemKnnSolution final : public Search {
 public:
  ItemKnnSolution(const ItemKnnOptions& options, std::string title)
      : options_(options), title_(std::move(title)) {}

  std::int64_t size() const override { return 1; }
  std::int64_t computed(std::int64_t done) const override { return 1 - done; }
  std::string unit() const override { return "solutions"; }
  std::shared_ptr<const ItemModel> solve(std::int64_t /*n*/, const Interactions& train,
                                         const Context& context, int threads) override {
    return solve_item_knn(train, options_, context, threads);
  }
  std::string title(std::int64_t /*n*/) const override { return title_; }
  Values values(std::int64_t /*n*/) const override { return {}; }

 private:
  ItemKnnOptions options_;
  std::string title_;
};

class ItemKnnKind final : public SolvedKind {
 public:
  ItemKnnKind()
      : SolvedKind(ModelType::item_knn, "item-kNN",
                   "weights between items, the similarities of nearest neighbors") {}

  std::vector<std::string_view> used_keys() const override { return {low_rank_keys}; }

  std::vector<std::string> without_effect(const ModelOptions& options) const override {
    return low_rank_without_effect(options.low_rank);
  }

  std::vector<keys::Key<ModelOptions>> keys() const override {
    using namespace keys;
    return own_keys<ItemKnnOptions>(
        *this,
        {or_word(make_key<ItemKnnOptions>("neighbors", &ItemKnnOptions::neighbors, at_least(1),
                                          "item-kNN: number of neighbors of an item; all: all items"),
                 "all", std::int64_t{0}, &ItemKnnOptions::neighbors),
         make_key<ItemKnnOptions>("shrink", &ItemKnnOptions::shrink, at_least(0.0),
                                  "item-kNN: added to the denominator of the similarity"),
         make_key<ItemKnnOptions>(
             "source_power", &ItemKnnOptions::source_power, between(0.0, 1.0),
             "item-kNN: exponent of the source item's number of users in the denominator"),
         or_word(make_key<ItemKnnOptions>(
                     "target_power", &ItemKnnOptions::target_power, between(0.0, 1.0),
                     "item-kNN: exponent of the target item's number of users; auto: 1 minus source_power"),
                 "auto", ItemKnnOptions::automatic, &ItemKnnOptions::target_power),
         make_key<ItemKnnOptions>("user_power", &ItemKnnOptions::user_power, between(0.0, 2.0),
                                  "item-kNN: users with n items have the weight n^-user_power"),
         make_key<ItemKnnOptions>("power", &ItemKnnOptions::power, positive(),
                                  "item-kNN: exponent of the similarity"),
         formerly("per",
                  make_key<ItemKnnOptions>(
                      "neighbors_of", &ItemKnnOptions::per,
                      "item-kNN: keep the nearest neighbors of each target item or of each source item"))});
  }

  std::unique_ptr<Search> search(const ModelOptions& options, Purpose purpose, bool compares) const override {
    auto title = purpose == Purpose::run ? name() : std::string(label());
    return with_low_rank(
        std::make_unique<ItemKnnSolution>(own_options<ItemKnnOptions>(options), std::move(title)), false,
        options.low_rank, purpose == Purpose::baseline && !compares);
  }

  Cost cost(const ModelOptions& options, const Workload& work) const override {
    const std::int64_t items = work.inputs.items;
    const std::int64_t neighbors = own_options<ItemKnnOptions>(options).neighbors;
    const comm::Communicator& ranks = work.context.communicator;
    const auto with_weights = [&](std::int64_t weights) {
      Cost cost;
      cost.parameters = weights;
      cost.host_bytes = sparse_weight_bytes(items, weights, ranks);
      cost.checkpoint_bytes = sparse_checkpoint_bytes(items, weights);
      return with_interactions(with_low_rank_cost(cost, false, options.low_rank, work), false, work);
    };
    Cost cost = with_weights(items * (neighbors > 0 ? std::min(items, neighbors) : items));
    if (!work.read_train || missing_memory(cost.host_bytes * ranks.local_size()) == 0.0) return cost;
    // Few pairs of items have a user in common. They are counted only if it matters.
    const std::int64_t entries =
        item_knn_entries(work.read_train(), neighbors, item_model_threads(work.context));
    const Cost counted = with_weights(entries);
    cost.host_bytes = counted.host_bytes;
    cost.memory = counted.memory;
    return cost;
  }

  bool is_usual_baseline() const override { return true; }

  std::string remedy(const ModelOptions& /*options*/) const override { return "fewer neighbors"; }

  std::string title(const io::Attributes& attributes) const override {
    return name() + low_rank_title(attributes);
  }
};

}  // namespace

const Kind& item_knn_kind() {
  static const ItemKnnKind kind;
  return kind;
}

}  // namespace vaecf::models
