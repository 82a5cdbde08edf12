#include "train/item_models/baselines.hpp"

#include <vaecf/base/format.hpp>
#include <vaecf/device/cpu/spd_inverse.hpp>
#include <vaecf/math/metrics.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "train/evaluate/popularity.hpp"
#include "train/item_models/item_knn.hpp"
#include "train/item_models/item_scorer.hpp"
#include "train/item_models/solve.hpp"
#include "train/run/host_info.hpp"

namespace vaecf::train {

namespace {

/// Returns whether EASE is a baseline by default: if a solution takes at most 10 s, and its memory at most a
/// quarter of the free memory. Collective.
bool ease_is_cheap(std::int64_t items, std::int64_t neighbors, comm::Communicator& ranks, int threads) {
  constexpr double max_seconds = 10.0;
  const auto n = static_cast<double>(items);
  const auto k = static_cast<double>(neighbors);
  // With neighbors: the factorization, and the counts for each element, which take as long as 500 operations.
  const double operations = neighbors > 0 ? n * k * k * (k / 3.0 + 500.0) : 2.0 * n * n * n;
  const double bytes = neighbors > 0 ? 16.0 * n * k : 4.0 * n * n;
  const double free = ranks.all_reduce(free_memory_bytes() / ranks.local_size(), comm::Reduction::min);
  if (bytes > free / 4.0) return false;
  constexpr std::int64_t probe = 2048;
  constexpr double probe_operations = 2.0 * probe * probe * probe;
  if (operations <= probe_operations) return true;
  cpu::SpdInverse identity(probe, 0, 1, threads);
  for (std::int64_t i = 0; i < probe; ++i) identity.row(i)[static_cast<std::size_t>(i)] = 1.0F;
  const auto begin = Clock::now();
  identity.invert({}, [](std::int64_t, std::int64_t) {});
  const double slowest = ranks.all_reduce(seconds_since(begin), comm::Reduction::max);
  return slowest * operations / probe_operations / ranks.size() <= max_seconds;
}

}  // namespace

std::vector<Baseline> evaluate_baselines(const TrainingConfig& options, const io::DatasetFile& dataset,
                                         Evaluator& evaluator, const RunContext& context) {
  const auto selected = [&](const char* name) {
    return std::ranges::find(options.validation.baselines, name) != options.validation.baselines.end();
  };
  const int threads = item_model_threads(context);
  // The model itself is no baseline, unless it is listed.
  const bool automatic = selected("auto");
  const bool automatic_knn = automatic && options.model.type != "item_knn";
  const bool automatic_ease = automatic && options.model.type != "ease";
  const std::int64_t items = dataset.items();
  // Every rank holds all interactions, by users and by items.
  const double bytes =
      8.0 * static_cast<double>(dataset.entries("train")) * context.communicator.local_size();
  const bool fits = context.communicator.all_reduce(free_memory_bytes(), comm::Reduction::min) / 4.0 >= bytes;
  if (automatic && !fits)
    context.log.info(
        "validation.baselines: auto: no item_knn and ease, since the train users would take {:.1f} GiB",
        bytes / 1073741824.0);
  const bool knn = (automatic_knn && fits) || selected("item_knn");
  const bool ease =
      selected("ease") || (automatic_ease && fits &&
                           ease_is_cheap(items, options.model.ease.neighbors, context.communicator, threads));
  std::vector<Baseline> baselines;
  if (automatic || selected("popularity")) {
    const Popularity popularity(dataset, context);
    const CsrView seen = evaluator.held_out().fold_in.view();
    const CsrView targets = evaluator.held_out().targets.view();
    const EvaluationResult result = evaluator.evaluate(
        [&](std::int64_t row, std::span<std::int32_t> ranks) {
          popularity.rank(seen.row(row), targets.row(row), ranks);
        },
        [&](std::int64_t row, std::span<std::int32_t> list) { return popularity.top(seen.row(row), list); });
    baselines.push_back({"popularity", "popularity", result});
  }
  if (!knn && !ease) return baselines;
  const Interactions train = read_interactions(dataset, context);
  if (knn) {
    ItemScorer knn_scorer(std::make_shared<ItemKnn>(train, options.model.item_knn, context, threads), items,
                          threads);
    baselines.push_back({"item_knn", "item-kNN", evaluator.evaluate(knn_scorer)});
  }
  if (!ease) return baselines;

  model::EaseOptions search = options.model.ease;
  const std::string& select = options.validation.select;
  const bool can_choose = dataset.rows("validation/fold_in") > 0 &&
                          dataset.entries("validation/held_out") > 0 && select != "last";
  if (!can_choose) {
    search.l2.resize(1);
    search.dropout.resize(1);
  } else if (search.l2 == model::EaseOptions{}.l2 && search.dropout == model::EaseOptions{}.dropout) {
    search.l2 = {100.0, 200.0, 500.0, 1000.0};
  }
  const std::vector<EaseValues> candidates = combinations(search);
  EaseValues best;
  std::unique_ptr<ItemScorer> best_model;
  double best_metric = 0.0;
  for (const EaseValues& values : candidates) {
    auto model = std::make_unique<ItemScorer>(solve_ease(train, values, context, threads), items, threads);
    double metric = 0.0;
    if (candidates.size() > 1) {
      Evaluator validation(dataset, "validation", {select}, context);
      metric = validation.evaluate(*model).metrics.at(select).mean;
    }
    if (best_model && !math::is_better(select, metric, best_metric)) continue;
    best = values;
    best_metric = metric;
    best_model = std::move(model);
  }
  baselines.push_back({"ease", ease_title(best), evaluator.evaluate(*best_model)});
  return baselines;
}

}  // namespace vaecf::train
