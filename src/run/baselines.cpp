#include "run/baselines.hpp"

#include <vaecf/base/host.hpp>
#include <vaecf/math/metrics.hpp>
#include <vaecf/models/item/item_model.hpp>
#include <vaecf/models/item/solvers.hpp>

#include <limits>
#include <utility>

#include "run/solve.hpp"

namespace vaecf::run {
namespace {

constexpr double gib = 1073741824.0;

/// Returns the memory of this host, or the limit of its container, divided by its ranks; the minimum over
/// hosts. Collective.
double memory_of_rank(comm::Communicator& ranks) {
  const HostMemory memory = host_memory();
  double bytes = static_cast<double>(memory.limit > 0 ? memory.limit : memory.total);
  if (bytes == 0.0) bytes = std::numeric_limits<double>::infinity();  // unknown
  return ranks.all_reduce(bytes / ranks.local_size(), comm::Reduction::min);
}

/// Returns the values of EASE to choose from on the validation users; without them the first ones.
std::vector<models::EaseValues> ease_candidates(const Run& run) {
  models::EaseOptions search = run.options.model.ease;
  const bool can_choose = run.dataset.rows("validation/fold_in") > 0 &&
                          run.dataset.entries("validation/held_out") > 0 &&
                          run.options.validation.select != "last";
  if (can_choose && search == models::EaseOptions{.neighbors = search.neighbors})
    search.l2 = {100.0, 200.0, 500.0, 1000.0};
  std::vector<models::EaseValues> candidates = models::combinations(search);
  if (!can_choose) candidates.resize(1);
  return candidates;
}

/// Returns why `auto` leaves out the baseline `type`, an item model; empty if it does not. Collective.
std::string obstacle_to(models::ModelType type, const Run& run) {
  comm::Communicator& ranks = run.communicator;
  const double memory = memory_of_rank(ranks);
  const std::int64_t threads = ranks.all_reduce(std::int64_t{models::item_model_threads(run)});
  std::string obstacle;
  if (models::facts_of(type).inverts)
    obstacle = cost_of_ease(run.dataset.items(), run.options.model.ease.neighbors,
                            models::inverses_of(ease_candidates(run)), threads, memory);
  const double bytes = memory_to_solve(type, run);
  const double missing = ranks.all_reduce(missing_memory(bytes), comm::Reduction::max);
  if (obstacle.empty() && missing > 0.0)
    obstacle = format("{:.1f} GiB per host, {:.1f} GiB more than are free", bytes / gib, missing / gib);
  return obstacle;
}

}  // namespace

std::string cost_of_ease(std::int64_t items, std::int64_t neighbors, std::int64_t solutions,
                         std::int64_t threads, double memory) {
  const auto n = static_cast<double>(items);
  const auto k = static_cast<double>(neighbors);
  // With neighbors: the factorization, and the counts for each element, which take as long as 500 operations.
  const double operations = neighbors > 0 ? n * k * k * (k / 3.0 + 500.0) : 2.0 * n * n * n;
  const double bytes = neighbors > 0 ? 16.0 * n * k : 4.0 * n * n;
  const double affordable = 1e12 * static_cast<double>(threads);
  if (operations > affordable)
    return format("{:.1f} x 10^12 operations, more than 10^12 for each of {} threads", operations / 1e12,
                  threads);
  if (static_cast<double>(solutions) * operations > 4.0 * affordable)
    return format("{} solutions of {:.2g} x 10^12 operations, more than 4 x 10^12 for each of {} threads",
                  solutions, operations / 1e12, threads);
  if (bytes > memory / 4.0)
    return format("{:.1f} GiB on each rank, more than a quarter of the {:.1f} GiB of a rank", bytes / gib,
                  memory / gib);
  return "";
}

std::vector<Baseline> evaluate_baselines(const Run& run, evaluate::Evaluator& evaluator,
                                         std::vector<LeftOut>* left_out) {
  const auto selected = [&](const std::string& name) {
    return std::ranges::find(run.options.validation.baselines, name) !=
           run.options.validation.baselines.end();
  };
  const int threads = models::item_model_threads(run);
  const std::int64_t items = run.dataset.items();
  const bool automatic = selected("auto");
  const auto includes = [&](models::ModelType type) {
    if (selected(vaecf::to_string(type))) return true;
    // The model itself is no baseline, unless it is listed.
    if (!automatic || run.options.model.type == type) return false;
    const std::string obstacle = obstacle_to(type, run);
    if (!obstacle.empty() && left_out != nullptr) left_out->push_back({vaecf::to_string(type), obstacle});
    return obstacle.empty();
  };
  const bool knn = includes(models::ModelType::item_knn);
  const bool ease = includes(models::ModelType::ease);
  std::vector<Baseline> baselines;
  if (automatic || selected("popularity")) {
    models::ItemScorer scorer(evaluator.popularity(), items, threads);
    baselines.push_back({"popularity", "popularity", evaluator.evaluate(scorer)});
  }
  if (!knn && !ease) return baselines;
  const models::Interactions train = models::read_interactions(run, run.dataset);
  if (knn) {
    const auto scorer =
        models::make_item_scorer(std::make_shared<models::SparseWeights>(
                                     models::solve_item_knn(train, run.options.model.item_knn, run, threads)),
                                 items, run);
    baselines.push_back(
        {vaecf::to_string(models::ModelType::item_knn), "item-kNN", evaluator.evaluate(*scorer)});
  }
  if (!ease) return baselines;

  const std::vector<models::EaseValues> candidates = ease_candidates(run);
  const std::string& select = run.options.validation.select;
  Context without_stop = run;  // a test is never left incomplete
  without_stop.stop = nullptr;
  std::shared_ptr<models::EaseModel> model;
  Baseline best{vaecf::to_string(models::ModelType::ease), "", {}};
  double best_metric = 0.0;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    const models::EaseValues& values = candidates[c];
    if (c > 0 && values.same_inverse(candidates[c - 1])) {
      model->set_columns(values.relax, values.kept_weight);
    } else {
      model.reset();  // so that the memory of one solution suffices
      model = models::solve_ease(train, values, without_stop, threads);
    }
    const auto scorer = models::make_item_scorer(model, items, run);
    double metric = 0.0;
    if (candidates.size() > 1) {
      evaluate::Evaluator validation(run, run.dataset, "validation", {select});
      metric = validation.evaluate(*scorer).metrics.at(select).mean;
    }
    if (c > 0 && !math::is_better(select, metric, best_metric)) continue;
    best_metric = metric;
    best.title = models::ease_title(values);
    best.result = evaluator.evaluate(*scorer);
  }
  baselines.push_back(std::move(best));
  return baselines;
}

}  // namespace vaecf::run
