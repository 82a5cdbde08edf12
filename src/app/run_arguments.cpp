#include "app/run_arguments.hpp"

#include <vaecf/base/version.hpp>
#include <vaecf/config/schema.hpp>
#include <vaecf/models/kind.hpp>
#include <vaecf/models/model.hpp>

#include <CLI/CLI.hpp>

#include <filesystem>

#include "app/json_fields.hpp"

namespace vaecf::app {

void add_run_arguments(CLI::App& app, CommandLine& line, RunArguments& arguments) {
  app.add_flag("--print-config", arguments.print_config,
               "print the configuration with every key as resolved, and do nothing else");
  app.add_option("--print-value", arguments.print_values,
                 "print the value of this key on a line, and do nothing else; repeatable")
      ->type_name("KEY")
      ->allow_extra_args(false);
  add_config(app, line, false);
  auto* train = app.add_flag(
      "--train", arguments.train,
      "train the model and keep the best checkpoint; an earlier run of this name is moved to NAME.1, NAME.2, ...");
  auto* test =
      app.add_flag("--test", arguments.test,
                   "test the best checkpoint; without --train, --test and --benchmark: train, then test");
  auto* per_user = app.add_option("--per-user", arguments.per_user,
                                  "with --test: also write the metrics of each test user to an HDF5 file")
                       ->type_name("FILE.h5");
  auto* benchmark = app.add_flag("--benchmark", arguments.benchmark, "measure the speed of training steps");
  auto* resume =
      app.add_option(
             "--resume", arguments.resume,
             "auto: resume from the newest valid checkpoint of the run folder, if any; never: start from scratch; FILE: resume from this checkpoint")
          ->type_name("auto|never|FILE")
          ->capture_default_str();
  auto* start_from =
      app.add_option(
             "--start-from", arguments.start_from,
             "new run with the weights of this checkpoint, matched by item id; new items get random weights, and optimizer, step and epoch start anew")
          ->type_name("CHECKPOINT")
          ->excludes(resume);
  auto* timeline =
      app.add_option("--timeline", arguments.timeline,
                     "write a trace of all ranks in Chrome trace format (Perfetto, chrome://tracing)")
          ->type_name("FILE");
  auto* seeds =
      app.add_option(
             "--seeds", arguments.seeds,
             "N runs one after the other, NAME-1 to NAME-N, with the seeds train.seed, train.seed + 1, ...; the last table has the mean and standard deviation of each metric of the tests; the file of --per-user gets the same numbers")
          ->check(integer_check(2, 1000), "NUMBER")
          ->type_name("N")
          ->excludes(benchmark)
          ->excludes(start_from)
          ->excludes(timeline);
  auto* plan = app.add_flag(
      "--plan", arguments.plan,
      "time 20 steps, at most 10 seconds; print memory, communication, disk and time that training will take, and write nothing");
  for (CLI::Option* other : {train, test, per_user, benchmark, resume, start_from, timeline, seeds})
    plan->excludes(other);
  add_verbosity(app, line);
}

void complete_arguments(const CommandLine& line, RunArguments& arguments) {
  if (line.config.empty()) throw InputError("a configuration or a command is missing; see vaecf_dist --help");
  if (!arguments.train && !arguments.test && !arguments.benchmark && !arguments.plan)
    arguments.train = arguments.test = true;
  const bool resumes_file = arguments.resume != "never" && arguments.resume != "auto";
  if (!arguments.train && resumes_file) {
    throw InputError(format(
        "--resume {}: requires --train; --test always uses best.h5 of the run folder (see vaecf_dist --help)",
        arguments.resume));
  }
  if (arguments.seeds > 0 && resumes_file) {
    throw InputError(format(
        "--resume {}: is the checkpoint of one run, but --seeds {} are {} runs; use --resume auto, which continues each from its own",
        arguments.resume, arguments.seeds, arguments.seeds));
  }
  if (!arguments.train && !arguments.start_from.empty())
    throw InputError(
        format("--start-from {}: requires --train (see vaecf_dist --help)", arguments.start_from));
  if (!arguments.per_user.empty() && !arguments.test) {
    throw InputError(
        format("--per-user {}: requires a test; add --test (see vaecf_dist --help)", arguments.per_user));
  }
}

std::string flags_text(const RunArguments& arguments) {
  return format("{}{}{}{}{}{}{}{}--resume {} of {}", arguments.timeline.empty() ? "" : "--timeline ",
                arguments.per_user.empty() ? "" : "--per-user ", arguments.train ? "--train " : "",
                arguments.test ? "--test " : "", arguments.benchmark ? "--benchmark " : "",
                arguments.plan ? "--plan " : "",
                arguments.seeds > 0 ? format("--seeds {} ", arguments.seeds) : "",
                arguments.start_from.empty() ? "" : format("--start-from {} ", arguments.start_from),
                arguments.resume, version_text());
}

void check_combinations(const RunArguments& arguments, const config::Config& config) {
  const auto& distributed = config.options.distributed;
  if (config.backend.deterministic && distributed.strategy == comm::StrategyKind::parameter_server &&
      distributed.updates == comm::ServerUpdates::asynchronous)
    throw InputError(
        "train.deterministic: true cannot be combined with distributed.parameter_server.updates: asynchronous; remove one of them");
  const models::ModelType type = config.options.model.type;
  if (!models::is_solved(type)) return;
  if (arguments.benchmark)
    throw InputError(
        format("--benchmark: measures training steps, but a model of type {} is solved at once; "
               "omit it, the duration of the solution is logged by --train",
               to_string(type)));
  if (arguments.seeds > 0)
    throw InputError(format(
        "--seeds {}: a model of type {} is solved, not trained: it has no seed, and every run gives the same result; omit --seeds",
        arguments.seeds, to_string(type)));
}

std::string printed_text(const config::Config& config, const std::vector<std::string>& keys) {
  if (keys.empty()) return config::dump(config);
  const io::Json values = config::to_json(config::dump(config));
  std::string text;
  for (const std::string& key : keys) {
    const io::Json* value = find_field(values, key);
    if (value == nullptr)
      throw InputError(format("--print-value: {} is not a key; --help-config lists all keys", excerpt(key)));
    text += line_of(*value) + "\n";
  }
  return text;
}

config::Config with_seed(config::Config config, int number) {
  config.options.name += format("-{}", number);
  config.options.train.seed += static_cast<std::uint64_t>(number - 1);
  config.text = config::dump(config);
  return config;
}

std::string with_number(const std::string& path, int number) {
  std::filesystem::path file(path);
  const std::string extension = file.extension().string();
  file.replace_filename(format("{}-{}{}", file.stem().string(), number, extension));
  return file.string();
}

}  // namespace vaecf::app
