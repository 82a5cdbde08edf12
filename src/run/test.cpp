#include <vaecf/checkpoint/checkpoint_reader.hpp>
#include <vaecf/math/metrics.hpp>
#include <vaecf/models/kind.hpp>
#include <vaecf/run/events.hpp>
#include <vaecf/run/test.hpp>

#include <utility>

#include "run/baselines.hpp"
#include "run/per_user.hpp"

namespace vaecf::run {
namespace {

/// Returns the event of a test. `solved`: the checkpoint has the number of a solution, not of an epoch.
io::Event event_of(const TestResult& result, const std::string& checkpoint, bool solved) {
  io::Event event(io::EventKind::test);
  event.set(solved ? "solution" : "epoch", result.epoch).set("checkpoint", checkpoint);
  event.set("users", result.model.users).set("users_without_history", result.model.users_without_history);
  add_evaluation(event, result.model);
  if (result.cold_start) {
    io::Json alone{{"users", result.cold_start->users}};
    alone.update(json_of(*result.cold_start));
    io::Json groups = event.fields().value("groups", io::Json::object());
    groups["features_alone"] = alone;
    event.set("groups", groups);
  }
  io::Json baselines = io::Json::object();
  for (const Baseline& baseline : result.baselines) {
    io::Json& of_baseline = baselines[baseline.name];
    if (!baseline.settings.empty()) of_baseline["settings"] = baseline.settings;
    of_baseline.update(json_of(baseline.result));
  }
  if (!baselines.empty()) event.set("baselines", baselines);
  io::Json left_out = io::Json::object();
  for (const LeftOut& baseline : result.left_out) left_out[baseline.name] = baseline.reason;
  if (!left_out.empty()) event.set("left_out", left_out);
  return event;
}

}  // namespace

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
  require_test_users(run.dataset);
  checkpoint::CheckpointReader reader(checkpoint, run);
  reader.require_trained_on(run.options.model, run.dataset);

  evaluate::Evaluator evaluator(run, run.dataset, "test", run.options.validation.metrics);
  TestResult result;
  result.epoch = reader.state().epoch;
  result.title = format("epoch {}", result.epoch);
  {
    const models::Kind& kind = models::kind_of(run.options.model.type);
    const auto [model, reasons] = kind.load(
        reader, run.options.model, models::input_dims(run.options.model, run.dataset, run.model_parallel()),
        run, run.device.facts().evaluation_batch, false);
    if (const auto* solved = kind.solved()) {
      reader.read_file(
          [&](const io::CheckpointFile& file) { result.title = solved->title(file.attributes()); });
      result.title = run.communicator.broadcast_string(result.title, 0);
    }
    result.model = evaluator.evaluate(*model);
    if (model->features() > 0) result.cold_start = evaluator.evaluate(*model, models::History::none);
  }
  result.baselines = evaluate_baselines(run, evaluator, &result.left_out);

  append_event(run, event_of(result, checkpoint, models::is_solved(run.options.model.type)));
  if (per_user.empty()) return result;
  write_per_user(run, evaluator, result, per_user,
                 {{"model", vaecf::to_string(run.options.model.type)},
                  {"checkpoint", checkpoint},
                  {"checkpoint_xxh3", format("{:016x}", reader.state().file_checksum)},
                  {"epoch", result.epoch},
                  {"step", reader.state().updates_done}});
  return result;
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
  const auto add_group = [&](const char* items,
                             evaluate::TargetGroupResult evaluate::EvaluationResult::*group) {
    if ((result.model.*group).users == 0) return;
    table += format("  held-out items in the {}: {} users\n", items, (result.model.*group).users);
    for (const auto& [name, value] : (result.model.*group).metrics) {
      table += format("  {:<{}}", name, width);
      for (const auto& [title, column] : columns)
        table += format("  {:>18}", cell((column->*group).metrics, name));
      table += "\n";
    }
  };
  add_group("head", &evaluate::EvaluationResult::head);
  add_group("tail", &evaluate::EvaluationResult::tail);
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
  return table + format("  left out: {}; --set evaluation.baselines=[{}] includes {}\n", join(reasons),
                        join(list, ","), reasons.size() > 1 ? "them" : "it");
}

}  // namespace vaecf::run
