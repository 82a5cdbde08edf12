#include <vaecf/config/training_config.hpp>
#include <vaecf/device/device.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/math/metrics.hpp>
#include <vaecf/run/benchmark.hpp>
#include <vaecf/run/events.hpp>
#include <vaecf/run/test.hpp>
#include <vaecf/run/test_lists.hpp>
#include <vaecf/run/validate.hpp>

#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/command_line.hpp"
#include "app/console.hpp"
#include "app/recommend/list_files.hpp"

namespace vaecf::app {
namespace {

struct EvaluateArguments {
  std::string dataset;
  std::string lists;
  std::string split = "test";
  std::vector<std::string> metrics = config::ValidationOptions().metrics;
  std::string per_user;  ///< file for the metrics of each user; empty: none
  bool json = false;     ///< print JSON instead of the table
};

/// Returns the lines below the table: what was counted.
std::string notes(const ListFile& file, const run::ListTestResult& result, const std::string& split) {
  const std::int64_t users = result.test.model.users;
  std::string text =
      format("  lists of {} of {} users, {}\n", users - result.users_without_list, users, file.order);
  if (result.users_without_list > 0)
    text += format("  {} users without a list: count 0\n", result.users_without_list);
  if (file.unknown_items.count() > 0) {
    text += format("  {} places with items that the dataset does not have: misses ({})\n",
                   file.unknown_items.count(), file.unknown_items.text());
  }
  if (result.seen_places > 0)
    text += format("  {} places with items of the user's input: left out\n", result.seen_places);
  if (file.unknown_users.count() > 0) {
    text += format("  {} users of the file are no {} users: left out ({})\n", file.unknown_users.count(),
                   split, file.unknown_users.text());
  }
  for (const auto& [k, lists] : result.short_lists)
    if (lists > 0) text += format("  {} lists have fewer than {} items: the rest are misses\n", lists, k);
  return text;
}

/// Returns the metrics in the form of an event, and the text of notes().
std::string json_text(const ListFile& file, const run::ListTestResult& result) {
  const evaluate::EvaluationResult& model = result.test.model;
  io::Json json{{"users", model.users}, {"users_without_history", model.users_without_history}};
  json.update(run::json_of(model));
  json["order"] = file.order;
  json["users_without_list"] = result.users_without_list;
  json["unknown_items"] = file.unknown_items.count();
  json["seen_items"] = result.seen_places;
  json["unknown_users"] = file.unknown_users.count();
  for (const auto& [k, lists] : result.short_lists) json["short_lists"][std::to_string(k)] = lists;
  return io::dump(json, 2) + "\n";
}

void run_evaluate(const CommandLine& line, const EvaluateArguments& arguments) {
  const auto& [dataset, lists, split, metrics, per_user, json] = arguments;
  config::TrainingConfig options;
  options.data.file = dataset;
  options.validation.metrics = metrics;
  for (const std::string& metric : metrics) (void)math::parse_metric(metric);  // throws
  if (!per_user.empty()) io::validate_output_path(per_user, "--per-user", {dataset, lists});
  Console console = make_console(line.verbosity);
  const auto self = comm::make_self_communicator();
  const auto device = device::make_device({.device = device::DeviceChoice::cpu, .threads = 1});
  const run::Run run{
      {*self, *device, console.log, *console.progress}, {}, options, run::open_dataset(options, *self)};
  run.dataset.require_unique_ids();
  if (run.dataset.entries(split + "/held_out") == 0) {
    throw InputError(format("{}: none of its {} users has a held-out item; choose another --split or dataset",
                            dataset, split));
  }
  const std::string user_ids = split + "/user_id";
  ListFile file = read_lists(lists, split,
                             io::ids_or_numbers(run.dataset, user_ids, run.dataset.rows(split + "/fold_in")),
                             io::ids_or_numbers(run.dataset, "items/id", run.dataset.items()));
  const auto result = run::test_lists(run, split, std::exchange(file.lists, {}), lists, per_user);
  print(json ? json_text(file, result) : run::to_table(result.test) + notes(file, result, split));
}

}  // namespace

void add_evaluate(CLI::App& app, CommandLine& line) {
  const auto arguments = std::make_shared<EvaluateArguments>();
  auto& command = add_command(
      app, line, "evaluate", "compute the metrics of recommendations by any program, as --test does",
      "  vaecf_dist evaluate data/ml20m.h5 --lists other.csv\n"
      "  vaecf_dist evaluate data/ml20m.h5 --lists top.h5 --metrics ndcg@10,coverage@10 \\\n"
      "      --per-user other.h5",
      with(arguments, run_evaluate));
  command.add_option("DATA.h5", arguments->dataset, "a dataset of prepare or synthesize")->required();
  command
      .add_option(
          "--lists", arguments->lists,
          "file of recommend (.jsonl, .json, .h5, .hdf5), or TSV or CSV with a user and an item per line, sorted by a column rank, else score, else as in the file; ids as in the source files")
      ->type_name("FILE")
      ->required();
  command.add_option("--split", arguments->split, "users of the dataset: test or validation")
      ->check(CLI::IsMember({"test", "validation"}))
      ->capture_default_str();
  command
      .add_option("--metrics", arguments->metrics, "metrics, separated by commas: " + math::metric_names())
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command
      .add_option("--per-user", arguments->per_user,
                  "HDF5 file to write with the metrics of each user, as --test --per-user")
      ->type_name("FILE");
  command.add_flag("--json", arguments->json, "print JSON instead of the table");
}

}  // namespace vaecf::app
