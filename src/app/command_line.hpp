#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/base/log.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/io/checkpoint.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace vaecf::app {

/// The parsed command line: the command, and the arguments of several commands. The file of a command owns
/// its other arguments.
struct CommandLine {
  std::string config;  ///< path of the YAML file; empty: the configuration in the checkpoint
  std::vector<std::string> overrides;
  Verbosity verbosity = Verbosity::normal;
  std::string command;  ///< name of the command: "run", "recommend", ...
  /// Runs the command and returns its exit code. Commands on several ranks throw only if the ranks cannot be
  /// connected.
  std::function<ExitCode(const CommandLine& line)> run;
};

/// Parses argv. Throws InputError, with a reference to --help, if it is not a valid command line.
CommandLine parse_command_line(int argc, const char* const* argv);

/// Replaces the path of a configuration that is not in the current folder by that of an installed one, if
/// there is one, and logs it on the first rank.
void find_config(CommandLine& line);

// Each adds a command with its arguments. Parsing an argv with it sets CommandLine::command and run. The
// first one adds the arguments of the program itself.
void add_run(CLI::App& app, CommandLine& line);
void add_prepare(CLI::App& app, CommandLine& line);
void add_synthesize(CLI::App& app, CommandLine& line);
void add_recommend(CLI::App& app, CommandLine& line);
void add_evaluate(CLI::App& app, CommandLine& line);
void add_similar(CLI::App& app, CommandLine& line);
void add_inspect(CLI::App& app, CommandLine& line);
void add_export(CLI::App& app, CommandLine& line);
void add_doctor(CLI::App& app, CommandLine& line);

/// Adds a command with its examples, one per line. Some versions of CLI11 wrap lines at 80 characters. `run`
/// becomes CommandLine::run.
CLI::App& add_command(CLI::App& app, CommandLine& line, const char* name, const char* purpose,
                      const std::string& examples, std::function<ExitCode(const CommandLine& line)> run);

/// Returns a function for add_command() that passes the arguments of the command to `run`.
template <class Arguments, class Result>
auto with(const std::shared_ptr<Arguments>& arguments,
          Result (*run)(const CommandLine& line, const Arguments& arguments)) {
  return [arguments, run](const CommandLine& line) {
    if constexpr (std::is_void_v<Result>) {
      run(line, *arguments);
      return ExitCode::done;
    } else {
      return run(line, *arguments);
    }
  };
}

/// Adds --verbose and --quiet.
void add_verbosity(CLI::App& app, CommandLine& line);
/// Adds CONFIG.yaml, which the command requires if `required` is set, and --set.
void add_config(CLI::App& app, CommandLine& line, bool required);
/// Returns a check for CLI::Option::check() of integers from `min` to `max`. CLI11's own prints limits with
/// 300 digits, and converts -1 to the largest unsigned number.
std::function<std::string(const std::string& text)> integer_check(std::uint64_t min, std::uint64_t max);
/// Adds --set.
void add_set(CLI::App& app, CommandLine& line);
/// Adds --replace.
void add_replace(CLI::App& command, bool& replace);
/// Adds --top, the number of items in a list.
void add_top(CLI::App& command, int& top, const char* description);
/// Adds --output, for which - means standard output: an empty path.
void add_output(CLI::App& command, std::string& output, const char* description);

/// Adds the arguments that select the model to serve: CONFIG.yaml, --set, and --checkpoint.
void add_served(CLI::App& app, CommandLine& line, std::string& checkpoint);
/// Returns the path of the checkpoint to serve: `requested`, or best.h5 of the run folder if that is empty.
/// Throws InputError if it does not exist.
std::string checkpoint_path(const std::string& requested, const config::Config& config);
/// Returns the configuration of CONFIG.yaml. Without that, opens `checkpoint` at `path` and returns the
/// configuration stored in it. Throws InputError if there is neither, or if one is not valid.
config::Config configuration_of(const CommandLine& line, const std::string& path,
                                std::optional<io::CheckpointFile>& checkpoint);

}  // namespace vaecf::app
