#include "app/command_line.hpp"

#include <vaecf/base/version.hpp>
#include <vaecf/checkpoint/run_folder.hpp>
#include <vaecf/comm/launcher.hpp>
#include <vaecf/config/schema.hpp>
#include <vaecf/models/model.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <sstream>
#include <system_error>

#include "app/console.hpp"

namespace vaecf::app {
namespace {

constexpr const char* footer =
    "Examples:\n"
    "  vaecf_dist synthesize data/quickstart.h5 --users 20000 --items 3000\n"
    "  mpirun -np 2 --bind-to none vaecf_dist configs/quickstart.yaml\n"
    "  vaecf_dist recommend configs/quickstart.yaml --top 10\n"
    "Exit codes: 0: done; 1: failed while running, or the answer no; 2: invalid usage, configuration or input; "
    "3: cannot start now, nothing was changed: a folder or file is in use, or memory is not free; try again; "
    "75: stopped on request (signal USR1) with a checkpoint; continue with --resume auto.\n"
    "VAECF_PROGRESS=bar, lines or none selects how progress is shown: by default a bar on a terminal, lines elsewhere.";

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

/// Throws InputError if the first word is the name of an option of runs, which is no command.
void refuse_reserved_word(int argc, const char* const* argv) {
  if (argc < 2) return;
  const std::string word = argv[1];
  if (word != "train" && word != "test" && word != "benchmark") return;
  const std::string config = argc > 2 && *argv[2] != '-' ? argv[2] : "CONFIG.yaml";
  throw InputError(
      format("{}: is not a command; write vaecf_dist {} --{} (see vaecf_dist --help)", word, config, word));
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

CommandLine parse_command_line(int argc, const char* const* argv) {
  if (argc > 1 && std::string_view(argv[1]) == "scaling") {
    throw InputError(
        "scaling: is not a command of this program; launch/scaling CONFIG --ranks 1,2,4 measures and predicts, and vaecf scaling FOLDER (python/) writes a report again");
  }
  refuse_reserved_word(argc, argv);
  CommandLine line;
  bool help_config = false;
  bool config_schema = false;
  CLI::App app(
      format("Distributed trainer for autoencoders and other models of collaborative filtering ({}).",
             names_of<models::ModelType>()),
      "vaecf_dist");
  app.footer(footer);
  app.set_version_flag("--version", written_by());
  app.add_flag("--help-config", help_config, "print all configuration keys with defaults and descriptions");
  app.add_flag("--config-schema", config_schema,
               "print a JSON Schema of all configuration keys, with which editors complete and check them");
  for (const auto add : {add_run, add_prepare, add_synthesize, add_recommend, add_evaluate, add_similar,
                         add_inspect, add_export, add_doctor})
    add(app, line);
  app.require_subcommand(0, 1);
  refuse_mistyped_command(app, argc, argv);
  const auto printer = [](const std::string& text) {
    return [text](const CommandLine&) {
      print(text);
      return ExitCode::done;
    };
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // --help, --version
    std::ostringstream out;
    app.exit(wanted, out, out);
    line.run = printer(out.str());
    return line;
  } catch (const CLI::ParseError& error) {
    throw InputError(format("{}; see vaecf_dist --help", error.what()));
  }
  refuse_empty_values(app);
  if (help_config) line.run = printer(config::reference_yaml());
  if (config_schema) line.run = printer(config::schema_json());
  return line;
}

void find_config(CommandLine& line) {
  const std::string found = config::find(line.config);
  if (found == line.config) return;
  Log(line.verbosity, comm::launcher_rank().value_or(0) == 0).info("reading the configuration {}", found);
  line.config = found;
}

CLI::App& add_command(CLI::App& app, CommandLine& line, const char* name, const char* purpose,
                      const std::string& examples, std::function<ExitCode(const CommandLine& line)> run) {
  CLI::App& added = *app.add_subcommand(name, purpose);
  added.callback([&line, name, run = std::move(run)] {
    line.command = name;
    line.run = run;
  });
  added.footer("Examples:\n" + examples);
  add_verbosity(added, line);
  return added;
}

void add_verbosity(CLI::App& app, CommandLine& line) {
  auto* verbose = app.add_flag_callback(
      "-v,--verbose", [&line] { line.verbosity = Verbosity::verbose; }, "more detailed log");
  app.add_flag_callback(
         "-q,--quiet", [&line] { line.verbosity = Verbosity::quiet; },
         "print only results, warnings and errors")
      ->excludes(verbose);
}

void add_config(CLI::App& app, CommandLine& line, bool required) {
  app.add_option("CONFIG.yaml", line.config,
                 "configuration file, here or in PREFIX/share/vaecf_dist; --help-config lists all keys")
      ->required(required);
  add_set(app, line);
}

std::function<std::string(const std::string& text)> integer_check(std::uint64_t min, std::uint64_t max) {
  return [min, max](const std::string& text) {
    std::uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (stop == end && error == std::errc() && value >= min && value <= max) return std::string();
    return format("must be an integer from {} to {}, got {}", min, max, text);
  };
}

void add_set(CLI::App& app, CommandLine& line) {
  app.add_option("--set", line.overrides,
                 "override one configuration key, e.g. --set train.epochs=2; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

void add_replace(CLI::App& command, bool& replace) {
  command.add_flag("--replace", replace,
                   "overwrite the file even if it is not an intact dataset of prepare or synthesize");
}

void add_top(CLI::App& command, int& top, const char* description) {
  command.add_option("--top", top, description)
      ->check(integer_check(1, std::numeric_limits<int>::max()), "NUMBER")
      ->capture_default_str();
}

void add_output(CLI::App& command, std::string& output, const char* description) {
  command.add_option_function<std::string>(
      "--output", [&output](const std::string& path) { output = path == "-" ? "" : path; }, description);
}

void add_served(CLI::App& app, CommandLine& line, std::string& checkpoint) {
  app.add_option("CONFIG.yaml", line.config,
                 "configuration file; default: the configuration stored in the checkpoint");
  add_set(app, line);
  app.add_option("--checkpoint", checkpoint,
                 "checkpoint to use; default: best.h5 of the configuration's run folder");
}

std::string checkpoint_path(const std::string& requested, const config::Config& config) {
  const std::string path =
      requested.empty() ? checkpoint::RunFolder{config.options.run_folder()}.best() : requested;
  std::error_code unknown;
  if (std::filesystem::exists(path, unknown)) return path;
  throw InputError(format("checkpoint {} does not exist; train first, or set --checkpoint", path));
}

config::Config configuration_of(const CommandLine& line, const std::string& path,
                                std::optional<io::CheckpointFile>& checkpoint) {
  if (!line.config.empty()) return config::load(line.config, line.overrides);
  if (path.empty()) throw InputError("a configuration or --checkpoint is missing; see vaecf_dist --help");
  checkpoint.emplace(path);
  return config::parse_served(checkpoint->attribute<std::string>("configuration"), path, line.overrides);
}

}  // namespace vaecf::app
