#include "run/baselines.hpp"

#include <vaecf/base/host.hpp>
#include <vaecf/evaluate/popularity.hpp>
#include <vaecf/math/metrics.hpp>
#include <vaecf/models/kind.hpp>
#include <vaecf/run/events.hpp>

#include <algorithm>
#include <limits>
#include <memory>

#include "run/memory.hpp"

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

/// Returns the solutions to choose from on the validation users; without such users, only the first one.
std::unique_ptr<models::Search> search_of(const models::SolvedKind& kind, const Run& run) {
  const bool compares = run.dataset.rows("validation/fold_in") > 0 &&
                        run.dataset.entries("validation/held_out") > 0 &&
                        run.options.validation.select != "last";
  return kind.search(run.options.model, models::SolvedKind::Purpose::baseline, compares);
}

/// Solves and evaluates a baseline: the best of its solutions on the validation users, if there are several.
/// Collective.
Baseline solve_baseline(const models::SolvedKind& kind, const models::Interactions& train, const Run& run,
                        evaluate::Evaluator& evaluator) {
  const std::unique_ptr<models::Search> search = search_of(kind, run);
  const std::string& select = run.options.validation.select;
  Context without_stop = run;  // a test is never left incomplete
  without_stop.stop = nullptr;
  std::shared_ptr<const models::ItemModel> model;
  Baseline best{kind.name(), "", {}};
  double best_metric = 0.0;
  const int threads = models::item_model_threads(run);
  for (std::int64_t first = 0, count = 0; first < search->size(); first += count) {
    model.reset();  // so that the memory of one solution suffices
    count = search->together(first);
    model = search->solve_together(first, train, without_stop, threads);
    auto scorer = models::make_item_scorer(model, run.dataset.items(), run);
    std::vector<double> metrics = {0.0};
    if (search->size() > 1) {
      evaluate::Evaluator validation(run, run.dataset, "validation", {select});
      metrics.clear();
      for (const evaluate::EvaluationResult& result : validation.evaluate_variants(*scorer))
        metrics.push_back(result.metrics.at(select).mean);
    }
    std::int64_t found = -1;
    for (std::int64_t n = first; n < first + count; ++n) {
      const double metric = metrics[static_cast<std::size_t>(n - first)];
      if (n > 0 && !math::is_better(select, metric, best_metric)) continue;
      best_metric = metric;
      search->note_best(found = n);
    }
    if (found < 0) continue;
    best.title = search->title(found);
    best.settings = settings_of(search->values(found));
    if (count > 1) {
      model = search->solve(found, train, without_stop, threads);
      scorer = models::make_item_scorer(model, run.dataset.items(), run);
    }
    best.result = evaluator.evaluate(*scorer);
  }
  return best;
}

/// Returns why `auto` leaves out a baseline; empty if it does not. Collective.
std::string obstacle_to(const models::SolvedKind& kind, const models::Cost& cost, const Run& run) {
  comm::Communicator& ranks = run.communicator;
  const double memory = memory_of_rank(ranks);
  const std::int64_t threads = ranks.all_reduce(std::int64_t{models::item_model_threads(run)});
  const double bytes = cost.host_bytes * ranks.local_size();
  std::string obstacle = obstacle_of_cost(cost, search_of(kind, run)->computed(0), threads, memory);
  const double missing = ranks.all_reduce(missing_memory(bytes), comm::Reduction::max);
  if (obstacle.empty() && missing > 0.0)
    obstacle = format("{:.1f} GiB per host, {:.1f} GiB more than are free", bytes / gib, missing / gib);
  return obstacle;
}

}  // namespace

std::string obstacle_of_cost(const models::Cost& cost, std::int64_t solutions, std::int64_t threads,
                             double memory) {
  const double affordable = 1e12 * static_cast<double>(threads);
  const double first = cost.operations + cost.operations_once;
  if (first > affordable)
    return format("{:.1f} x 10^12 operations, more than 10^12 for each of {} threads", first / 1e12, threads);
  if (static_cast<double>(solutions) * cost.operations > 5.0 * affordable)
    return format("{} solutions of {:.2g} x 10^12 operations, more than 5 x 10^12 for each of {} threads",
                  solutions, cost.operations / 1e12, threads);
  if (cost.solution_bytes > memory / 4.0)
    return format("{:.1f} GiB on each rank, more than a quarter of the {:.1f} GiB of a rank",
                  cost.solution_bytes / gib, memory / gib);
  return "";
}

std::vector<Baseline> evaluate_baselines(const Run& run, evaluate::Evaluator& evaluator,
                                         std::vector<LeftOut>* left_out) {
  const auto selected = [&](const std::string& name) {
    return std::ranges::find(run.options.validation.baselines, name) !=
           run.options.validation.baselines.end();
  };
  const bool automatic = selected("auto");
  struct Candidate {
    const models::SolvedKind* kind;
    models::Cost cost;
  };
  std::vector<Candidate> included;
  for (const models::Kind* any : models::all_kinds()) {
    const models::SolvedKind* kind = any->solved();
    if (kind == nullptr) continue;
    // The model itself is no baseline, unless it is listed.
    if (selected(kind->name()) ||
        (automatic && kind->is_usual_baseline() && run.options.model.type != kind->type()))
      included.push_back({kind, cost_of(*kind, run)});
  }
  // The quickest is computed first.
  std::ranges::stable_sort(included, {}, [](const Candidate& each) { return each.cost.operations; });
  std::erase_if(included, [&](const Candidate& each) {
    if (selected(each.kind->name())) return false;
    const std::string obstacle = obstacle_to(*each.kind, each.cost, run);
    if (!obstacle.empty() && left_out != nullptr) left_out->push_back({each.kind->name(), obstacle});
    return !obstacle.empty();
  });
  std::vector<Baseline> baselines;
  if (automatic || selected("popularity")) {
    const auto scorer = models::make_item_scorer(evaluator.popularity(), run.dataset.items(), run);
    baselines.push_back({"popularity", "popularity", evaluator.evaluate(*scorer)});
  }
  if (included.empty()) return baselines;
  const models::Interactions train = models::read_interactions(run, run.dataset);
  for (const Candidate& each : included)
    baselines.push_back(solve_baseline(*each.kind, train, run, evaluator));
  return baselines;
}

}  // namespace vaecf::run
