#include <vaecf/base/text.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/hash.hpp>
#include <vaecf/run/item_slices.hpp>
#include <vaecf/run/recommender.hpp>
#include <vaecf/run/test.hpp>
#include <vaecf/run/validate.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <system_error>

#include "app/command_line.hpp"
#include "app/rank_devices.hpp"
#include "app/rank_session.hpp"
#include "app/recommend/id_files.hpp"
#include "app/recommend/item_names.hpp"
#include "app/recommend/output.hpp"
#include "app/recommend/recommend_arguments.hpp"
#include "app/recommend/recommend_job.hpp"
#include "app/recommend/stream.hpp"
#include "app/recommend/target_users.hpp"
#include "app/task_result.hpp"

namespace vaecf::app {
namespace {

constexpr int max_reasons = 1000;

/// Returns the number of item slices, and makes the device of the session if there may be several. Throws
/// InputError if they cannot be divided over the ranks.
int count_item_slices(const config::Config& config, const io::CheckpointFile& checkpoint,
                      RankSession& session) {
  if (config.options.distributed.item_slices == 1) return 1;
  session.device = device::make_device(backend_options_for_rank(config, session.hosts()));
  const Context context{session.hosts(), *session.device, session.console.log, *session.console.progress};
  const models::InputDims inputs{checkpoint.attribute<std::int64_t>("items"),
                                 optional_attribute<std::int64_t>(checkpoint, "user_features")};
  return run::choose_item_slices(config.options, {.context = context, .inputs = inputs});
}

ExitCode run_recommend(const CommandLine& line, const RecommendArguments& arguments) {
  if (arguments.stream) return run_stream(line, arguments);
  config::Config config;
  std::optional<io::CheckpointFile> checkpoint;
  const TaskResult parsed =
      run_and_capture([&] { config = configuration_of(line, arguments.checkpoint, checkpoint); });
  // Contributions are small differences, and add up to the score, in fp32 only.
  if (arguments.reasons > 0) config.backend.precision = device::Precision::fp32;
  RankSession session(make_communicator(config.options.distributed));
  session.together(parsed);
  session.watch(config.options.distributed);
  int item_slices = 1;
  session.together([&] {
    if (!checkpoint) checkpoint.emplace(checkpoint_path(arguments.checkpoint, config));
    session.console = make_console(line.verbosity, session.hosts().rank() == 0);
    item_slices = count_item_slices(config, *checkpoint, session);
  });
  std::shared_ptr<const comm::RankGrid> grid;
  session.together([&] { grid = run::divide_ranks(session.hosts(), item_slices); });
  std::optional<RecommendJob> job;
  session.together([&] { job.emplace(arguments, line.config, config, *checkpoint, session, grid); });
  session.together([&] { job->start(); });
  return session.work(
      [&](std::string&) {
        session.hosts().activity().enter(Phase::test);
        job->work();
        return ExitCode::done;
      },
      "recommending");
}

}  // namespace

void add_recommend(CLI::App& app, CommandLine& line) {
  const auto shared = std::make_shared<RecommendArguments>();
  auto& command = add_command(
      app, line, "recommend",
      "recommend the top items to users, with the source's ids; alone, or on all ranks under mpirun",
      "  vaecf_dist recommend configs/ml20m.yaml --top 10 --output top.tsv\n"
      "  vaecf_dist recommend --checkpoint best.h5 --input new_users.csv --output top.jsonl\n"
      "  mpirun -np 4 vaecf_dist recommend configs/ml20m.yaml --output all.h5",
      with(shared, run_recommend));
  RecommendArguments& arguments = *shared;
  add_served(command, line, arguments.checkpoint);
  auto* input = command.add_option(
      "--input", arguments.input,
      "file with one user and item per line, for new users: TSV, CSV, or the format of data.source; items by id or title");
  command
      .add_option(
          "--interaction-weight-column", arguments.weight_column,
          "column of --input with play counts or ratings, by name or by index from 0, for a model trained with interaction weights; default: that of the ratings in data.source")
      ->type_name("NAME")
      ->needs(input);
  auto* users =
      command
          .add_option(
              "--user-features", arguments.user_features,
              "table with the features of the --input users, or, without --input, of all users to recommend to; "
              "must have the columns that the dataset was prepared with")
          ->type_name("FILE");
  auto* split =
      command
          .add_option(
              "--split", arguments.split,
              "users of the dataset: all, each once and with all items; or train, validation or test, with their training or fold-in items")
          ->check(CLI::IsMember({"train", "validation", "test", "all"}))
          ->capture_default_str();
  input->excludes(split);
  users->excludes(split);
  command
      .add_option("--user", arguments.user,
                  "recommend only to the user with this id, as in the source files; repeatable")
      ->type_name("ID")
      ->allow_extra_args(false);
  command.add_option("--users", arguments.users, "file with the ids of such users, one per line")
      ->type_name("FILE");
  auto* stream = command.add_flag(
      "--stream", arguments.stream,
      "answer each line of standard input, a user as a JSON object, with a line on standard output; the other options are its defaults");
  add_top(command, arguments.top, "number of items per user");
  command.add_flag("--keep-seen", arguments.keep_seen, "also recommend items that the user already has");
  command
      .add_option("--exclude", arguments.exclude, "file with items that are never recommended, one per line")
      ->type_name("FILE");
  command
      .add_option("--exclude-pairs", arguments.exclude_pairs,
                  "file with one user and item per line: items that are never recommended to this user")
      ->type_name("FILE");
  command
      .add_option(
          "--include", arguments.include,
          "file with the items that may be recommended, one per line; new items of the dataset are recommended only if they are in it")
      ->type_name("FILE");
  auto* at_most =
      command
          .add_option(
              "--at-most", arguments.at_most,
              "lists have at most N items of each category; the file has lines item,category or item,category|category, and items that are not in it have no limit")
          ->type_name("FILE N")
          ->check(CLI::Validator(integer_check(1, std::numeric_limits<int>::max()), "").application_index(1));
  command
      .add_option(
          "--category-column", arguments.category_column,
          "column of categories in the file of --at-most, by name or by index from 0; default: category, or the other of two columns")
      ->type_name("NAME")
      ->needs(at_most);
  command
      .add_option(
          "--reasons", arguments.reasons,
          "add for each item the N items of the user that contribute most to its score, and their contributions; computes in fp32")
      ->type_name("N")
      ->check(integer_check(1, max_reasons), "");
  command.add_flag("--titles", arguments.titles,
                   "add the titles of the items, which the checkpoint must contain");
  add_output_format(command, arguments.output, arguments.format);
  // An answer has no other form than a JSON object.
  for (const char* const other : {"--input", "--user-features", "--split", "--user", "--users",
                                  "--exclude-pairs", "--titles", "--format", "--output"})
    stream->excludes(command.get_option(other));
}

}  // namespace vaecf::app
