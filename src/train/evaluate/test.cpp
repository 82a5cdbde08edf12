#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/train/evaluator.hpp>
#include <vaecf/train/train.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "train/checkpoint/training_state.hpp"
#include "train/item_models/baselines.hpp"
#include "train/run/collective_checks.hpp"
#include "train/run/run_log.hpp"

namespace vaecf::train {

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

TestResult test(const TrainingConfig& options, const RunContext& context, const std::string& checkpoint) {
  const io::DatasetFile dataset(options.data.file);
  require_equal_on_all_ranks(context.communicator, dataset.fingerprint(),
                             format("the dataset {}", options.data.file));
  require_test_users(dataset);
  CheckpointReader reader(checkpoint, context);
  reader.require_trained_on(options, dataset);

  Evaluator evaluator(dataset, "test", evaluated_metrics(options.validation), context);
  TestResult result;
  result.epoch = reader.state().epoch;
  {
    const auto model = context.engine.make_model(options.model, model_input_dims(options, dataset),
                                                 context.engine.facts().evaluation_batch);
    reader.load_weights(*model);
    result.model = evaluator.evaluate(*model);
    if (model->features() > 0) result.cold_start = evaluator.evaluate(*model, model::History::none);
  }
  result.baselines = evaluate_baselines(options, dataset, evaluator, context);

  io::Event event("test");
  event.set("epoch", result.epoch)
      .set("checkpoint", checkpoint)
      .set("users", result.model.users)
      .set("users_without_target", result.model.users_without_target);
  add_metrics(event, result.model);
  if (result.cold_start) add_metrics(event, *result.cold_start, "cold_");
  for (const Baseline& baseline : result.baselines) add_metrics(event, baseline.result, baseline.name + "_");
  append_event(options, context, event);
  return result;
}

std::string to_table(const TestResult& result) {
  std::size_t width = 6;
  for (const auto& [name, value] : result.model.metrics) width = std::max(width, name.size());
  std::string table = format("test of epoch {}: {} users", result.epoch, result.model.users);
  if (result.model.users_without_target > 0) {
    table += format(", {} without a target left out", result.model.users_without_target);
  }
  std::vector<std::pair<std::string, const Metrics*>> columns = {{"model", &result.model.metrics}};
  if (result.cold_start) columns.emplace_back("features alone", &result.cold_start->metrics);
  for (const Baseline& baseline : result.baselines)
    columns.emplace_back(baseline.title, &baseline.result.metrics);
  table += format("\n  {:<{}}", "metric", width);
  for (const auto& [title, metrics] : columns) table += format("  {:>18}", title);
  table += "\n";
  const auto cell = [](const Metrics& metrics, const std::string& name) {
    const auto found = metrics.find(name);
    if (found == metrics.end()) return std::string("-");
    const auto& [mean, error] = found->second;
    return error ? format("{:.4f} +- {:.4f}", mean, *error) : format("{:.4f}          ", mean);
  };
  for (const auto& [name, value] : result.model.metrics) {
    table += format("  {:<{}}", name, width);
    for (const auto& [title, metrics] : columns) table += format("  {:>18}", cell(*metrics, name));
    table += "\n";
  }
  return table;
}

}  // namespace vaecf::train
