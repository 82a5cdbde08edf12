#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/checkpoint/run_log.hpp>
#include <vaecf/checkpoint/training_state.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/evaluate/evaluator.hpp>
#include <vaecf/run/train.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "run/solve.hpp"

namespace vaecf::run {

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

namespace {

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

TestResult test(const Run& run, const std::string& checkpoint, const std::string& per_user) {
  comm::require_equal_on_all_ranks(run.communicator, run.dataset.fingerprint(),
                                   format("the dataset {}", run.options.data.file));
  require_test_users(run.dataset);
  checkpoint::CheckpointReader reader(checkpoint, run);
  reader.require_trained_on(run);

  evaluate::Evaluator evaluator(run, "test", evaluate::evaluated_metrics(run.options.validation));
  TestResult result;
  result.epoch = reader.state().epoch;
  result.title = format("epoch {}", result.epoch);
  {
    const auto model = checkpoint::load_scorer(
        reader, run.options, model_input_dims(run.options, run.dataset, run.model_parallel()), run,
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
  content.attributes = {{"format_version", std::int64_t{1}},
                        {"model", vaecf::to_string(run.options.model.type)},
                        {"checkpoint", checkpoint},
                        {"checkpoint_xxh3", format("{:016x}", reader.state().file_checksum)},
                        {"epoch", result.epoch},
                        {"step", reader.state().updates_done},
                        {"dataset", run.dataset.path()},
                        {"dataset_checksum", run.dataset.fingerprint()},
                        {"metrics", join(names)},
                        {"groups", join(sets)}};
  comm::run_on_root(run.communicator, [&] { io::write_user_columns(per_user, content); });
  run.log.info("wrote {}: metrics of {} users", per_user, content.users.size());
  return result;
}

std::string to_table(const TestResult& result) {
  std::size_t width = 6;
  for (const auto& [name, value] : result.model.metrics) width = std::max(width, name.size());
  std::string table = format("test of {}: {} users", result.title, result.model.users);
  if (result.model.users_without_target > 0) {
    table += format(", {} without a target left out", result.model.users_without_target);
  }
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
