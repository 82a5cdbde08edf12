#include <vaecf/base/error.hpp>
#include <vaecf/models/kind.hpp>

#include <algorithm>
#include <utility>

#include "models/ease/ease_model.hpp"
#include "models/ease/ease_values.hpp"
#include "models/linear/low_rank.hpp"
#include "models/linear/low_rank_search.hpp"
#include "models/linear/memory.hpp"
#include "models/own_keys.hpp"

namespace vaecf::models {
namespace {

/// The values of l2 unless the configuration has others: to choose from, or the only one.
const std::vector<double> usual_l2 = {30.0, 100.0, 300.0, 500.0, 1000.0};
constexpr double usual_single_l2 = 500.0;

/// The value of neighbors, in configurations, events and checkpoints, without neighborhoods.
const std::string all_items = "all";

bool has_value(const std::vector<double>& values) {
  return std::ranges::any_of(values, [](double value) { return value != 0.0; });
}

/// All combinations of the values of model.ease.
class EaseSolutions final : public Search {
 public:
  explicit EaseSolutions(std::vector<EaseValues> values) : values_(std::move(values)) {}

  std::int64_t size() const override { return std::ssize(values_); }
  std::int64_t computed(std::int64_t done) const override {
    return inverses_of({values_.begin() + done, values_.end()});
  }
  std::string unit() const override { return values_.front().neighbors == 0 ? "inverses" : "solutions"; }
  std::string reused(std::int64_t n) const override {
    return has_inverse_of(n) ? "with the same inverse" : "";
  }

  std::shared_ptr<const ItemModel> solve(std::int64_t n, const Interactions& train, const Context& context,
                                         int threads) override {
    if (has_inverse_of(n)) {
      model_->set_columns(values_[n].relax, values_[n].kept_weight);
    } else {
      model_.reset();
      model_ = solve_ease(train, values_[n], context, threads);
      solved_ = values_[n];
    }
    return model_;
  }

  std::string title(std::int64_t n) const override { return ease_title(values_[n]); }
  Values values(std::int64_t n) const override {
    Values all;
    for (const auto& [name, value] : values_[n].named()) all.emplace_back(name, value);
    const std::int64_t neighbors = values_[n].neighbors;
    all.emplace_back("neighbors", neighbors == 0 ? io::Attribute(all_items) : io::Attribute(neighbors));
    return all;
  }

 private:
  bool has_inverse_of(std::int64_t n) const { return model_ && solved_.same_inverse(values_[n]); }

  std::vector<EaseValues> values_;
  std::shared_ptr<EaseModel> model_;  // the last solution
  EaseValues solved_;                 // its values
};

class EaseKind final : public SolvedKind {
 public:
  EaseKind() : SolvedKind(ModelType::ease, "EASE", "weights between items, the inverse of one matrix") {}

  std::vector<std::string_view> used_keys() const override { return {low_rank_keys}; }

  std::vector<std::string_view> experimental_keys() const override { return {"model.ease.kept_weight"}; }

  std::vector<std::string> without_effect(const ModelOptions& options) const override {
    return low_rank_without_effect(options.low_rank);
  }

  std::vector<keys::Key<ModelOptions>> keys() const override {
    using namespace keys;
    return own_keys<EaseOptions>(
        *this,
        {make_key<EaseOptions>(
             "user_power", &EaseOptions::user_power, list_of(between(0.0, 2.0)),
             "EASE: users with n items have the weight n^-user_power; of several values the best on validation is used"),
         make_key<EaseOptions>(
             "feature_weight", &EaseOptions::feature_weight, list_of(at_least(0.0)),
             "EASE: weight of each feature of items (CEASE), which counts as this many users who share the items that have it; requires data.prepare.item_features; try 300 and 1000"),
         or_word(
             make_key<EaseOptions>(
                 "l2", &EaseOptions::l2, list_of(positive()),
                 "EASE: ridge penalty in numbers of users; of several values the best on validation is used; auto: [30, 100, 300, 500, 1000], or 500 without validation users or with validation.select: last"),
             "auto"),
         make_key<EaseOptions>(
             "dropout", &EaseOptions::dropout, list_of(below_one()),
             "EASE: dropout probability of the denoising form EDLAE; 0: EASE; of several values the best is used"),
         make_key<EaseOptions>(
             "relax", &EaseOptions::relax, list_of(between(0.0, 1.0)),
             "EASE: largest weight of an item for itself before it is set to 0 (RLAE, RDLAE); 1: no limit (LAE, DLAE); not with kept_weight"),
         make_key<EaseOptions>(
             "kept_weight", &EaseOptions::kept_weight, list_of(at_least(0.0)),
             "EASE: weight of a target that dropout keeps in the input, relative to one that it drops (DEQL); 0: EDLAE; 1: as relax: 1"),
         make_key<EaseOptions>(
             "search", &EaseOptions::search,
             "EASE: standard: user_power [0, 0.5], dropout [0, 0.3, 0.5], relax [0, 0.4], except for those that are set"),
         or_word(
             make_key<EaseOptions>(
                 "neighbors", &EaseOptions::neighbors, at_least(1),
                 "EASE: number of neighbors of an item, solved separately for each item; all: all items, solved together"),
             all_items.c_str(), std::int64_t{0}, &EaseOptions::neighbors)});
  }

  void resolve(ModelOptions& options, const IsSet& is_set) const override {
    auto& ease = own_options<EaseOptions>(options);
    if (std::exchange(ease.search, EaseSearch::none) == EaseSearch::standard) {
      const auto set_default = [&](const char* key, std::vector<double>& values, std::vector<double> grid) {
        if (!is_set(key)) values = std::move(grid);
      };
      set_default("model.ease.user_power", ease.user_power, {0.0, 0.5});
      set_default("model.ease.dropout", ease.dropout, {0.0, 0.3, 0.5});
      // Both change the diagonal, and only one of them is possible.
      if (ease.kept_weight == std::vector{0.0}) set_default("model.ease.relax", ease.relax, {0.0, 0.4});
    }
    if (has_value(ease.relax) && has_value(ease.kept_weight)) {
      throw KeyError{
          "model.ease.kept_weight",
          "model.ease.kept_weight and model.ease.relax both have values other than 0; set one of them to 0"};
    }
  }

  void validate(const ModelOptions& options, const io::DatasetFile& dataset) const override {
    const auto& ease = own_options<EaseOptions>(options);
    if (ease.neighbors >= dataset.items()) {
      throw InputError(format(
          "model.ease.neighbors: must be below the number of items ({}), got {}; use all for all items",
          dataset.items(), ease.neighbors));
    }
    if (dataset.item_features() == 0 && has_value(ease.feature_weight)) {
      throw InputError(format(
          "model.ease.feature_weight: {} has no features of items; set data.prepare.item_features and prepare it again, or set the key to 0",
          dataset.path()));
    }
  }

  std::unique_ptr<Search> search(const ModelOptions& options, Purpose purpose, bool compares) const override {
    auto ease = own_options<EaseOptions>(options);
    if (ease.l2.empty()) ease.l2 = compares ? usual_l2 : std::vector{usual_single_l2};
    std::vector<EaseValues> values = combinations(ease);
    const bool single = purpose == Purpose::baseline && !compares;
    if (single) values.resize(1);
    return with_low_rank(std::make_unique<EaseSolutions>(std::move(values)), is_dense(options),
                         options.low_rank, single);
  }

  Cost cost(const ModelOptions& options, const Workload& work) const override {
    const comm::Communicator& ranks = work.context.communicator;
    const auto& ease = own_options<EaseOptions>(options);
    Cost cost = ease_cost(work.inputs.items, ease.neighbors);
    // Besides the inverse of all ranks, each has its part of it.
    const double parts = ranks.size() == 1 ? 1.0 : 1.0 + 1.0 / ranks.size();
    cost.host_bytes = is_dense(options) ? cost.solution_bytes * parts
                                        : sparse_weight_bytes(work.inputs.items, cost.parameters, ranks);
    cost = with_low_rank_cost(cost, is_dense(options), options.low_rank, work);
    return with_interactions(cost, has_value(ease.feature_weight), work);
  }

  bool is_usual_baseline() const override { return true; }

  std::string remedy(const ModelOptions& options) const override {
    return own_options<EaseOptions>(options).neighbors > 0 ? "fewer neighbors" : "model.ease.neighbors: 300";
  }

  std::string title(const io::Attributes& attributes) const override {
    const auto value = [&](const char* name) { return std::get<double>(attributes.at(name)); };
    const auto* const neighbors = std::get_if<std::int64_t>(&attributes.at("neighbors"));
    return ease_title({.l2 = value("l2"),
                       .dropout = value("dropout"),
                       .neighbors = neighbors == nullptr ? 0 : *neighbors,
                       .user_power = value("user_power"),
                       .relax = value("relax"),
                       .kept_weight = value("kept_weight"),
                       .feature_weight = value("feature_weight")}) +
           low_rank_title(attributes);
  }

 private:
  static bool is_dense(const ModelOptions& options) {
    return own_options<EaseOptions>(options).neighbors == 0;
  }
};

}  // namespace

Cost ease_cost(std::int64_t items, std::int64_t neighbors) {
  const auto n = static_cast<double>(items);
  if (neighbors == 0) {
    return {.parameters = items * items,
            .checkpoint_bytes = 4.0 * n * n,
            .operations = 2.0 * n * n * n,
            .solution_bytes = 4.0 * n * n};
  }
  // The factorization, and the counts for each element, which take as long as 500 operations.
  const auto k = static_cast<double>(neighbors);
  const std::int64_t weights = items * std::min(items, neighbors);
  return {.parameters = weights,
          .checkpoint_bytes = sparse_checkpoint_bytes(items, weights),
          .operations = n * k * k * (k / 3.0 + 500.0),
          .solution_bytes = 16.0 * n * k};
}

const Kind& ease_kind() {
  static const EaseKind kind;
  return kind;
}

}  // namespace vaecf::models
