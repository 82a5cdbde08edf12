#include "train/item_models/baselines.hpp"

#include <vaecf/base/format.hpp>
#include <vaecf/math/user_metrics.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "train/evaluate/popularity.hpp"
#include "train/item_models/ease.hpp"
#include "train/item_models/ease_k.hpp"
#include "train/item_models/item_knn.hpp"
#include "train/item_models/parallel_for.hpp"
#include "train/run/host_info.hpp"

namespace vaecf::train {

EvaluationResult evaluate(Evaluator& evaluator, const ItemModel& model, std::int64_t items, int threads) {
  const CsrView seen = evaluator.held_out().fold_in.view();
  const CsrView targets = evaluator.held_out().targets.view();
  const auto score = [&](std::int64_t row) {
    std::vector<float> scores(static_cast<std::size_t>(items));
    model.score(seen.row(row), scores);
    for (const std::int32_t item : seen.row(row))
      scores[static_cast<std::size_t>(item)] = -std::numeric_limits<float>::infinity();
    return scores;
  };
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(targets.entries()));
  const auto ranks_of = [&](std::int64_t row) {
    return std::span(ranks).subspan(static_cast<std::size_t>(targets.offsets[row] - targets.offsets[0]),
                                    static_cast<std::size_t>(targets.row_size(row)));
  };
  parallel_for(threads, {0, targets.rows()}, [&](std::int64_t row) {
    if (targets.row_size(row) == 0) return;
    const std::vector<float> scores = score(row);
    const std::span<std::int32_t> result = ranks_of(row);
    const auto is_ahead = [&](std::int64_t a, std::int64_t b) {
      return math::ranks_ahead(scores[static_cast<std::size_t>(a)], a, scores[static_cast<std::size_t>(b)],
                               b);
    };
    // The positions of the targets, best first; each item is ahead of all targets from some position on.
    std::vector<std::size_t> order(result.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto target = [&](std::size_t position) { return targets.row(row)[position]; };
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return is_ahead(target(a), target(b)); });
    std::vector<std::int32_t> first_behind(result.size() + 1, 0);
    for (std::int64_t j = 0; j < items; ++j) {
      const auto found = std::ranges::partition_point(
          order, [&](std::size_t position) { return !is_ahead(j, target(position)); });
      ++first_behind[static_cast<std::size_t>(found - order.begin())];
    }
    std::int32_t ahead = 0;
    for (std::size_t k = 0; k < order.size(); ++k) {
      ahead += first_behind[k];
      // A target in the fold-in is masked.
      const bool masked = std::isinf(scores[static_cast<std::size_t>(target(order[k]))]);
      result[order[k]] = masked ? static_cast<std::int32_t>(items) : ahead;
    }
  });
  return evaluator.evaluate(
      [&](std::int64_t row, std::span<std::int32_t> result) {
        std::ranges::copy(ranks_of(row), result.begin());
      },
      [&](std::int64_t row, std::span<std::int32_t> list) {
        const std::vector<float> scores = score(row);
        std::vector<std::int32_t> order;
        for (std::int64_t j = 0; j < items; ++j)
          if (!std::isinf(scores[static_cast<std::size_t>(j)])) order.push_back(static_cast<std::int32_t>(j));
        const std::size_t count = std::min(list.size(), order.size());
        std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count),
                                  [&](std::int32_t a, std::int32_t b) {
                                    return math::ranks_ahead(scores[static_cast<std::size_t>(a)], a,
                                                             scores[static_cast<std::size_t>(b)], b);
                                  });
        std::copy_n(order.begin(), count, list.begin());
        return count;
      });
}

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
  int threads = context.engine.facts().threads;
  if (threads < 1)
    threads =
        static_cast<int>(std::max<std::int64_t>(1, process_cores() / context.communicator.local_size()));
  const bool automatic = selected("auto");
  const std::int64_t items = dataset.items();
  // Every rank holds all interactions, by users and by items.
  const double bytes =
      8.0 * static_cast<double>(dataset.entries("train")) * context.communicator.local_size();
  const bool fits = context.communicator.all_reduce(free_memory_bytes(), comm::Reduction::min) / 4.0 >= bytes;
  if (automatic && !fits)
    context.log.info(
        "validation.baselines: auto: no item_knn and ease, since the train users would take {:.1f} GiB",
        bytes / 1073741824.0);
  const bool knn = (automatic && fits) || selected("item_knn");
  const bool ease =
      selected("ease") || (automatic && fits &&
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
    const ItemKnn model(train, options.model.item_knn, context, threads);
    baselines.push_back({"item_knn", "item-kNN", evaluate(evaluator, model, items, threads)});
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
  const bool chooses = search.l2.size() * search.dropout.size() > 1;
  std::optional<std::pair<double, double>> best;
  std::unique_ptr<ItemModel> best_model;
  double best_value = 0.0;
  for (const double l2 : search.l2) {
    for (const double dropout : search.dropout) {
      std::unique_ptr<ItemModel> model;
      if (search.neighbors > 0)
        model = std::make_unique<EaseK>(train, search.neighbors, l2, dropout, context, threads);
      else
        model = std::make_unique<Ease>(train, l2, dropout, context, threads);
      double value = 0.0;
      if (chooses) {
        Evaluator validation(dataset, "validation", {select}, context);
        value = evaluate(validation, *model, items, threads).metrics.at(select).mean;
      }
      if (best && value <= best_value) continue;
      best = {l2, dropout};
      best_value = value;
      best_model = std::move(model);
    }
  }
  std::string title = search.neighbors > 0 ? format("EASE K {} l2 {:g}", search.neighbors, best->first)
                                           : format("EASE l2 {:g}", best->first);
  if (best->second > 0.0) title += format(" p {:g}", best->second);
  baselines.push_back({"ease", title, evaluate(evaluator, *best_model, items, threads)});
  return baselines;
}

}  // namespace vaecf::train
