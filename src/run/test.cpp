#include <vaecf/base/host.hpp>
#include <vaecf/checkpoint/checkpoint_reader.hpp>
#include <vaecf/checkpoint/load_scorer.hpp>
#include <vaecf/math/metrics.hpp>
#include <vaecf/models/item/item_model.hpp>
#include <vaecf/models/item/solvers.hpp>
#include <vaecf/run/events.hpp>

#include <limits>
#include <utility>

#include "run/baselines.hpp"
#include "run/per_user.hpp"
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

/// Adds the metrics of all users, and those of users with and without history if there are both.
void add_result(io::Event& event, const evaluate::EvaluationResult& result, const std::string& prefix) {
  add_metrics(event, result, prefix);
  const auto add_set = [&](const evaluate::Metrics& metrics, const std::string& suffix) {
    for (const auto& [name, value] : metrics) {
      event.set(prefix + name + suffix, value.mean);
      event.set(prefix + name + suffix + "_se", *value.standard_error);
    }
  };
  add_set(result.with_history, "_with_history");
  add_set(result.without_history, "_without_history");
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

void require_test_users(const io::DatasetFile& dataset) {
  if (dataset.entries("test/held_out") > 0) return;
  if (dataset.rows("test/fold_in") > 0) {
    throw InputError(format(
        "{}: none of its test users has a held-out item; "
        "pass --train to skip the test, or prepare it with more items per user (data.prepare.min_user_items, held_out_fraction)",
        dataset.path()));
  }
  throw InputError(
      format("{}: the dataset has no test users; "
             "pass --train to skip the test, or prepare it with data.prepare.test_users above 0",
             dataset.path()));
}

TestResult test(const Run& run, const std::string& checkpoint, const std::string& per_user) {
  comm::require_equal_on_all_ranks(run.communicator, run.dataset.fingerprint(),
                                   format("the dataset {}", run.options.data.file));
  require_test_users(run.dataset);
  checkpoint::CheckpointReader reader(checkpoint, run);
  reader.require_trained_on(run.options.model, run.dataset);

  evaluate::Evaluator evaluator(run, run.dataset, "test", run.options.validation.metrics);
  TestResult result;
  result.epoch = reader.state().epoch;
  result.title = format("epoch {}", result.epoch);
  {
    const auto model = checkpoint::load_scorer(
        reader, run.options, models::input_dims(run.options.model, run.dataset, run.model_parallel()), run,
        run.device.facts().evaluation_batch);
    if (models::is_solved(run.options.model.type)) result.title = checkpoint::solution_title(reader, run);
    result.model = evaluator.evaluate(*model);
    if (model->features() > 0) result.cold_start = evaluator.evaluate(*model, models::History::none);
  }
  result.baselines = evaluate_baselines(run, evaluator, &result.left_out);

  io::Event event(io::EventKind::test);
  event.set("epoch", result.epoch)
      .set("checkpoint", checkpoint)
      .set("users", result.model.users)
      .set("users_without_target", result.model.users_without_target)
      .set("users_without_history", result.model.users_without_history);
  add_result(event, result.model, "");
  if (result.cold_start) add_result(event, *result.cold_start, "cold_");
  for (const Baseline& baseline : result.baselines) add_result(event, baseline.result, baseline.name + "_");
  for (const LeftOut& baseline : result.left_out) event.set("left_out_" + baseline.name, baseline.reason);
  append_event(run, event);
  if (per_user.empty()) return result;
  write_per_user(run, evaluator, result, per_user,
                 {{"model", vaecf::to_string(run.options.model.type)},
                  {"checkpoint", checkpoint},
                  {"checkpoint_xxh3", format("{:016x}", reader.state().file_checksum)},
                  {"epoch", result.epoch},
                  {"step", reader.state().updates_done}});
  return result;
}

void write_per_user(const Run& run, evaluate::Evaluator& evaluator, const TestResult& result,
                    const std::string& path, io::Attributes origin) {
  std::vector<std::pair<std::string, const evaluate::EvaluationResult*>> results = {{"", &result.model}};
  std::vector<std::string> sets;
  const auto add = [&](const std::string& set, const evaluate::EvaluationResult& of_set) {
    results.emplace_back(set + "/", &of_set);
    sets.push_back(set);
  };
  if (result.cold_start) add("cold", *result.cold_start);
  for (const Baseline& baseline : result.baselines) add(baseline.name, baseline.result);
  io::UserColumns content = evaluator.per_user(results);
  std::vector<std::string> names;
  for (const auto& [name, values] : result.model.of_users) names.push_back(name);
  content.attributes = std::move(origin);
  content.attributes.merge(io::Attributes{{"format_version", std::int64_t{1}},
                                          {"split", result.split},
                                          {"dataset", run.dataset.path()},
                                          {"dataset_checksum", run.dataset.fingerprint()},
                                          {"metrics", join(names)},
                                          {"groups", join(sets)}});
  comm::run_on_root(run.communicator, [&] { io::write_user_columns(path, content); });
  run.log.info("wrote {}: metrics of {} users", path, content.users.size());
}

std::string to_table(const TestResult& result) {
  std::size_t width = 6;
  for (const auto& [name, value] : result.model.metrics) width = std::max(width, name.size());
  std::string table = format("{} of {}: {} users", result.split, result.title, result.model.users);
  if (result.model.users_without_target > 0)
    table += format(", {} without a target left out", result.model.users_without_target);
  std::vector<std::pair<std::string, const evaluate::EvaluationResult*>> columns = {{"model", &result.model}};
  if (result.cold_start) columns.emplace_back("features alone", &*result.cold_start);
  for (const Baseline& baseline : result.baselines) columns.emplace_back(baseline.title, &baseline.result);
  table += format("\n  {:<{}}", "metric", width);
  for (const auto& [title, column] : columns) table += format("  {:>18}", title);
  table += "\n";
  const auto cell = [](const evaluate::Metrics& metrics, const std::string& name) {
    const auto found = metrics.find(name);
    if (found == metrics.end()) return std::string("-");
    const auto& [mean, error] = found->second;
    const int digits = mean < 100.0 ? 4 : 1;
    return error ? format("{:.{}f} +- {:.{}f}", mean, digits, *error, digits)
                 : format("{:.4f}          ", mean);
  };
  const auto add_rows = [&](evaluate::Metrics evaluate::EvaluationResult::*metrics) {
    for (const auto& [name, value] : result.model.*metrics) {
      table += format("  {:<{}}", name, width);
      for (const auto& [title, column] : columns) table += format("  {:>18}", cell(column->*metrics, name));
      table += "\n";
    }
  };
  add_rows(&evaluate::EvaluationResult::metrics);
  if (!result.model.with_history.empty()) {
    const std::int64_t without = result.model.users_without_history;
    table += format("  {} users with history\n", result.model.users - without);
    add_rows(&evaluate::EvaluationResult::with_history);
    table += format("  {} users without history\n", without);
    add_rows(&evaluate::EvaluationResult::without_history);
  }
  if (result.model.new_items) {
    const evaluate::NewItemsResult& of_model = *result.model.new_items;
    table += format("  {} new items, ranked among themselves: {} users\n", of_model.items, of_model.users);
    for (const auto& [name, expected] : of_model.random) {
      table += format("  {:<{}}", name, width);
      for (const auto& [title, column] : columns)
        table += format("  {:>18}", cell(column->new_items->metrics, name));
      table += format("  {:.4f} in random order\n", expected.mean);
    }
  }
  if (result.left_out.empty()) return table;
  std::vector<std::string> reasons;
  std::vector<std::string> list;
  for (const Baseline& baseline : result.baselines) list.push_back(baseline.name);
  for (const LeftOut& baseline : result.left_out) {
    reasons.push_back(format("{} ({})", baseline.name, baseline.reason));
    list.push_back(baseline.name);
  }
  return table + format("  left out: {}; --set validation.baselines=[{}] includes {}\n", join(reasons),
                        join(list, ","), reasons.size() > 1 ? "them" : "it");
}

}  // namespace vaecf::run
