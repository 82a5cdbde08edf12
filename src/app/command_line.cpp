#include "app/command_line.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/models/model.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <sstream>
#include <system_error>

#include "app/recommend/output.hpp"
#include "app/version.hpp"

namespace vaecf::app {
namespace {

constexpr const char* footer =
    "Examples:\n"
    "  vaecf_dist synthesize data/quickstart.h5 --users 20000 --items 3000\n"
    "  mpirun -np 2 --bind-to none vaecf_dist configs/quickstart.yaml\n"
    "  vaecf_dist recommend configs/quickstart.yaml --top 10\n"
    "Exit codes: 0: done; 1: failed while running; 2: invalid usage, configuration or input; "
    "75: stopped on request (signal USR1) with a checkpoint; continue with --resume auto.\n"
    "VAECF_PROGRESS=bar, lines or none selects how progress is shown: by default a bar on a terminal, lines elsewhere.";

void add_verbosity(CLI::App& app, CommandLine& line) {
  auto* verbose = app.add_flag_callback(
      "-v,--verbose", [&line] { line.verbosity = Verbosity::verbose; }, "more detailed log");
  app.add_flag_callback(
         "-q,--quiet", [&line] { line.verbosity = Verbosity::quiet; },
         "print only results, warnings and errors")
      ->excludes(verbose);
}

/// Adds a command with its examples, one per line. Some versions of CLI11 wrap lines at 80 characters.
CLI::App& add_command(CLI::App& app, CommandLine& line, Command command, const char* name,
                      const char* purpose, const std::string& examples) {
  CLI::App* added = app.add_subcommand(name, purpose);
  added->callback([&line, command] { line.command = command; });
  added->footer("Examples:\n" + examples);
  add_verbosity(*added, line);
  return *added;
}

void add_set(CLI::App& app, CommandLine& line) {
  app.add_option("--set", line.overrides,
                 "override one configuration key, e.g. --set train.epochs=2; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

void add_config(CLI::App& app, CommandLine& line, bool required) {
  app.add_option("CONFIG.yaml", line.config, "configuration file; --help-config lists all keys")
      ->required(required);
  add_set(app, line);
}

/// Adds the arguments that select the model to serve.
void add_served(CLI::App& app, CommandLine& line, std::string& checkpoint) {
  app.add_option("CONFIG.yaml", line.config,
                 "configuration file; default: the configuration stored in the checkpoint");
  add_set(app, line);
  app.add_option("--checkpoint", checkpoint,
                 "checkpoint to use; default: best.h5 of the configuration's run folder");
}

/// Returns a validator of integers from `min_value` on. CLI11's own range check prints limits with 300
/// digits, and converts -1 to the largest unsigned number.
template <class Number>
CLI::Validator at_least(Number min_value) {
  const auto check = [min_value](const std::string& text) {
    Number value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (stop == end && error == std::errc() && value >= min_value) return std::string();
    return format("must be an integer from {} to {}, got {}", min_value, std::numeric_limits<Number>::max(),
                  text);
  };
  return {check, "NUMBER"};
}

/// Throws InputError if an option has an empty value: usually an unset variable of a script, which must not
/// have the same effect as omitting the option.
void refuse_empty_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& value : option->results()) {
      if (!value.empty()) continue;
      throw InputError(format("{}: must not be empty; set a value or omit the option (see vaecf_dist --help)",
                              option->get_name()));
    }
  }
  for (const CLI::App* command : app.get_subcommands()) refuse_empty_values(*command);
}

void add_run(CLI::App& app, CommandLine& line) {
  add_config(app, line, false);
  app.add_flag(
      "--train", line.train,
      "train the model and keep the best checkpoint; an earlier run of this name is moved to NAME.1, NAME.2, ...");
  app.add_flag("--test", line.test,
               "test the best checkpoint; without --train, --test and --benchmark: train, then test");
  app.add_option("--per-user", line.per_user,
                 "with --test: also write the metrics of each test user to an HDF5 file")
      ->type_name("FILE.h5");
  app.add_flag("--benchmark", line.benchmark, "measure the speed of training steps");
  auto* resume =
      app.add_option(
             "--resume", line.resume,
             "auto: resume from the newest valid checkpoint of the run folder, if any; never: start from scratch; FILE: resume from this checkpoint")
          ->type_name("auto|never|FILE")
          ->capture_default_str();
  app.add_option(
         "--start-from", line.start_from,
         "new run with the weights of this checkpoint, matched by item id; new items get random weights, and optimizer, step and epoch start anew")
      ->type_name("CHECKPOINT")
      ->excludes(resume);
  app.add_option("--timeline", line.timeline,
                 "write a trace of all ranks in Chrome trace format (Perfetto, chrome://tracing)")
      ->type_name("FILE");
}

void add_replace(CLI::App& command, bool& replace) {
  command.add_flag("--replace", replace,
                   "overwrite the file even if it is not an intact dataset of prepare or synthesize");
}

void add_prepare(CLI::App& app, CommandLine& line) {
  auto& command = add_command(app, line, Command::prepare, "prepare",
                              "convert raw ratings into an HDF5 dataset, the file of the key data.file",
                              "  vaecf_dist prepare configs/ml20m.yaml\n"
                              "  vaecf_dist prepare configs/ml1m.yaml --set data.prepare.seed=7 --force");
  add_config(command, line, true);
  command.add_flag("--strict", line.prepare.strict,
                   "treat malformed lines as errors instead of reporting and skipping them");
  command.add_flag("--force", line.prepare.force,
                   "prepare again even if the dataset exists with the same source and options");
  add_replace(command, line.prepare.replace);
  command.footer("data.source.format:\n" + data::describe_source_formats() + "\n" + command.get_footer());
}

void add_synthesize(CLI::App& app, CommandLine& line) {
  auto& command =
      add_command(app, line, Command::synthesize, "synthesize",
                  "generate a synthetic dataset with latent tastes and power-law item popularity",
                  "  vaecf_dist synthesize data/quickstart.h5 --users 20000 --items 3000\n"
                  "  vaecf_dist synthesize data/big.h5 --users 1000000 --items 100000 --compression 1");
  auto& options = line.synthesize;
  command.add_option("OUT.h5", line.output, "dataset to write")->required();
  command.add_option("--users", options.users, "number of users, including held-out users")
      ->capture_default_str();
  command.add_option("--items", options.items, "number of items")->capture_default_str();
  command.add_option("--interactions-per-user", options.interactions_per_user, "mean interactions per user")
      ->capture_default_str();
  command.add_option("--seed", options.seed, "random seed; the same seed generates the same data")
      ->check(at_least(std::uint64_t{0}))
      ->capture_default_str();
  command
      .add_option("--validation-users", options.validation_users,
                  "number of validation users; default: a tenth of the users, at most 10,000")
      ->check(at_least(std::int64_t{0}));
  command
      .add_option("--test-users", options.test_users,
                  "number of test users; default: a tenth of the users, at most 10,000")
      ->check(at_least(std::int64_t{0}));
  command.add_option("--tastes", options.tastes, "number of latent tastes")->capture_default_str();
  command
      .add_option("--user-columns", options.user_columns,
                  "number of user attributes to generate: country, age, occupation, gender, ...")
      ->capture_default_str();
  command.add_option("--compression", options.compression, "0: none; 1 to 9: shuffle and deflate")
      ->check(CLI::Range(0, 9))
      ->capture_default_str();
  add_replace(command, options.replace);
}

void add_recommend(CLI::App& app, CommandLine& line) {
  auto& command = add_command(
      app, line, Command::recommend, "recommend",
      "recommend the top items to users, with the source's ids; alone, or on all ranks under mpirun",
      "  vaecf_dist recommend configs/ml20m.yaml --top 10 --output top.tsv\n"
      "  vaecf_dist recommend --checkpoint best.h5 --input new_users.csv --output top.jsonl\n"
      "  mpirun -np 4 vaecf_dist recommend configs/ml20m.yaml --split all \\\n"
      "      --output all.h5");
  auto& arguments = line.recommend;
  add_served(command, line, arguments.checkpoint);
  auto* input = command.add_option(
      "--input", arguments.input,
      "file with one user and item per line, for new users: TSV, CSV, or the format of data.source; items by id or title");
  auto* users =
      command
          .add_option(
              "--users", arguments.users,
              "table with the features of the --input users, or, without --input, of all users to recommend to; "
              "must have the columns that the dataset was prepared with")
          ->type_name("FILE");
  auto* split =
      command
          .add_option(
              "--split", arguments.split,
              "users of the dataset, which must exist: train, validation, test, or all (each user once, with all interactions)")
          ->check(CLI::IsMember({"train", "validation", "test", "all"}))
          ->capture_default_str();
  input->excludes(split);
  users->excludes(split);
  command
      .add_option("--user", arguments.user,
                  "recommend only to the user with this id, as in the source files; repeatable")
      ->type_name("ID")
      ->allow_extra_args(false);
  command.add_option("--user-list", arguments.user_list, "file with the ids of such users, one per line")
      ->type_name("FILE");
  command.add_option("--top", arguments.top, "number of items per user")
      ->check(at_least(1))
      ->capture_default_str();
  command.add_flag("--keep-seen", arguments.keep_seen, "also recommend items that the user already has");
  command
      .add_option("--exclude", arguments.exclude, "file with items that are never recommended, one per line")
      ->type_name("FILE");
  command
      .add_option("--include", arguments.include, "file with the items that may be recommended, one per line")
      ->type_name("FILE");
  command.add_flag("--titles", arguments.titles,
                   "add the titles of the items, which the checkpoint must contain");
  command.add_option("--output", arguments.output,
                     "a .tsv, .csv, .jsonl, .json, .h5 or .hdf5 file; default: -, TSV on standard output");
  std::vector<std::string> formats;
  for (const auto& [format, name] : enum_names<OutputFormat>) formats.emplace_back(name);
  command
      .add_option("--format", arguments.format,
                  "output format; default: by the ending of --output, tsv without one")
      ->check(CLI::IsMember(formats));
}

void add_similar(CLI::App& app, CommandLine& line) {
  auto& command =
      add_command(app, line, Command::similar, "similar",
                  "list the items most similar to given items by the model's weights, with the source's ids",
                  "  vaecf_dist similar configs/ml20m.yaml --item 318\n"
                  "  vaecf_dist similar --checkpoint best.h5 --item 318 --item 858 --top 5 --titles");
  auto& arguments = line.similar;
  add_served(command, line, arguments.checkpoint);
  command.add_option("--item", arguments.items, "id of an item, as in the source files; repeatable")
      ->type_name("ID")
      ->allow_extra_args(false)
      ->required();
  command.add_option("--top", arguments.top, "number of similar items per item")
      ->check(at_least(1))
      ->capture_default_str();
  command.add_flag("--titles", arguments.titles,
                   "add a column with the titles of the similar items, which the checkpoint must contain");
  command.add_option("--output", arguments.output, "a TSV file; default: -, standard output");
}

void add_inspect(CLI::App& app, CommandLine& line) {
  auto& command = add_command(app, line, Command::inspect, "inspect",
                              "show the contents of a dataset or a checkpoint, or the curves of a run",
                              "  vaecf_dist inspect data/ml20m.h5\n"
                              "  vaecf_dist inspect runs/ml20m/checkpoints/best.h5\n"
                              "  vaecf_dist inspect runs/ml20m --metric recall@20\n"
                              "  vaecf_dist inspect runs/ml20m --finished");
  command.add_option("FILE|RUN", line.path, "a dataset, a checkpoint, a metrics.jsonl, or a run folder")
      ->required();
  command.add_option("--metric", line.metric, "metric to show for a run; default: its validation.select");
  auto* finished = command.add_flag(
      "--finished", line.finished,
      "show nothing; exit with 0 if the last start of the run has done all its tasks, else with 1");
  command
      .add_option("--id", line.run_id,
                  "with --finished: the start with this VAECF_RUN_ID instead of the last one")
      ->needs(finished);
}

void add_export(CLI::App& app, CommandLine& line) {
  auto& command =
      add_command(app, line, Command::export_model, "export",
                  "export a checkpoint as safetensors, or as an ONNX model that computes scores",
                  "  vaecf_dist export runs/ml20m/checkpoints/best.h5 --output model.onnx\n"
                  "  vaecf_dist export runs/ml20m/checkpoints/best.h5 --output model.safetensors");
  command.add_option("CHECKPOINT", line.path, "checkpoint to export")->required();
  command.add_option("--output", line.output, "the .safetensors or .onnx file to write")->required();
}

void add_doctor(CLI::App& app, CommandLine& line) {
  auto& command =
      add_command(app, line, Command::doctor, "doctor",
                  "check hardware, libraries and configuration on all ranks (run alone or under mpirun); "
                  "exits with 1 if a problem must be fixed",
                  "  vaecf_dist doctor\n"
                  "  vaecf_dist doctor configs/ml20m.yaml --quick\n"
                  "  mpirun -np 4 --hostfile hosts vaecf_dist doctor configs/ml20m.yaml");
  add_config(command, line, false);
  command.add_flag("--json", line.json, "print one JSON object instead of a table");
  command.add_flag("--quick", line.quick, "skip the benchmarks");
}

/// Returns what the program does, with the names of all models.
std::string program_description() {
  return format("Distributed trainer for autoencoders and other models of collaborative filtering ({}).",
                names_of<models::ModelType>());
}

/// Throws InputError if the first argument that is no option is neither a command nor a file, but close to
/// the name of a command: it would be taken as a configuration.
void refuse_mistyped_command(const CLI::App& app, int argc, const char* const* argv) {
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands({})) commands.push_back(command->get_name());
  const char* const* const first =
      std::find_if(argv + std::min(argc, 1), argv + argc, [](const char* word) { return *word != '-'; });
  std::error_code unknown;
  if (first == argv + argc || std::filesystem::exists(*first, unknown)) return;
  const std::string meant = config::closest_match(*first, commands);
  if (meant.empty() || meant == *first) return;
  throw InputError(
      format("{}: is neither a command nor a configuration (did you mean {}?); see vaecf_dist --help", *first,
             meant));
}

}  // namespace

std::string version_text() {
  return *commit == '\0' ? std::string(version) : format("{} ({})", version, commit);
}

CommandLine parse_command_line(int argc, const char* const* argv) {
  if (argc > 1 && std::string_view(argv[1]) == "scaling") {
    throw InputError(
        "scaling: is not a command of this program; launch/scaling CONFIG --ranks 1,2,4 measures and predicts, and vaecf scaling FOLDER (python/) writes a report again");
  }
  CommandLine line;
  bool help_config = false;
  bool print_config = false;
  CLI::App app(program_description(), "vaecf_dist");
  app.footer(footer);
  app.set_version_flag("--version", "vaecf_dist " + version_text());
  app.add_flag("--help-config", help_config, "print all configuration keys with defaults and descriptions");
  app.add_flag("--print-config", print_config,
               "print the configuration with every key as resolved, and do nothing else");
  add_run(app, line);
  add_verbosity(app, line);
  for (const auto add :
       {add_prepare, add_synthesize, add_recommend, add_similar, add_inspect, add_export, add_doctor})
    add(app, line);
  app.require_subcommand(0, 1);
  refuse_mistyped_command(app, argc, argv);

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // --help, --version
    std::ostringstream out;
    app.exit(wanted, out, out);
    line.command = Command::print;
    line.text = out.str();
    return line;
  } catch (const CLI::ParseError& error) {
    throw InputError(format("{}; see vaecf_dist --help", error.what()));
  }
  refuse_empty_values(app);
  for (std::string* output : {&line.recommend.output, &line.similar.output}) {
    if (*output == "-") output->clear();
  }
  if (help_config) {
    line.command = Command::print;
    line.text = config::reference_yaml();
  } else if (line.command == Command::run && line.config.empty()) {
    throw InputError("a configuration or a command is missing; see vaecf_dist --help");
  } else if (line.config.empty() &&
             ((line.command == Command::recommend && line.recommend.checkpoint.empty()) ||
              (line.command == Command::similar && line.similar.checkpoint.empty()))) {
    throw InputError("a configuration or --checkpoint is missing; see vaecf_dist --help");
  } else if (line.command == Command::run && print_config) {
    line.command = Command::print;
    line.text = config::dump(config::load(line.config, line.overrides));
  }
  const bool any = line.train || line.test || line.benchmark;
  if (!any) line.train = line.test = true;
  if (!line.train && line.resume != "never" && line.resume != "auto") {
    throw InputError(format(
        "--resume {}: requires --train; --test always uses best.h5 of the run folder (see vaecf_dist --help)",
        line.resume));
  }
  if (!line.train && !line.start_from.empty()) {
    throw InputError(format("--start-from {}: requires --train (see vaecf_dist --help)", line.start_from));
  }
  if (!line.per_user.empty() && !line.test) {
    throw InputError(
        format("--per-user {}: requires a test; add --test (see vaecf_dist --help)", line.per_user));
  }
  return line;
}

}  // namespace vaecf::app
