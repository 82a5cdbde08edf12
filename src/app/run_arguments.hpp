#pragma once

#include <vaecf/config/config.hpp>

#include <memory>
#include <string>
#include <vector>

#include "app/command_line.hpp"

namespace vaecf::app {

/// Arguments of the program without a command.
struct RunArguments {
  bool print_config = false;
  std::vector<std::string> print_values;  ///< keys
  bool train = false;
  bool test = false;
  bool benchmark = false;
  bool plan = false;
  int seeds = 0;  ///< number of runs, which differ by train.seed only; 0: one run, named `name`
  std::string resume = "never";  ///< never, auto, or a checkpoint's path
  std::string start_from;        ///< checkpoint with the initial weights; empty: random weights
  std::string timeline;          ///< file for the trace of all ranks; empty: none
  std::string per_user;          ///< file for the test metrics of each user; empty: none
};

/// Adds the arguments to the command line of the program itself.
void add_run_arguments(CLI::App& app, CommandLine& line, RunArguments& arguments);

/// Sets the tasks that follow from the arguments. Throws InputError if arguments contradict each other.
void complete_arguments(const CommandLine& line, RunArguments& arguments);

/// Returns what must be the same on all ranks: the flags of the run and the version.
std::string flags_text(const RunArguments& arguments);

/// Throws InputError if a key or an argument contradicts another key.
void check_combinations(const RunArguments& arguments, const config::Config& config);

/// Returns the values of keys of a configuration, each on a line, or without keys all of it as YAML. Throws
/// InputError for an unknown key.
std::string printed_text(const config::Config& config, const std::vector<std::string>& keys);

/// Returns the configuration of run `number` of --seeds, from 1: `config` with the name NAME-number and the
/// seed train.seed + number - 1.
config::Config with_seed(config::Config config, int number);

/// Returns the file of --per-user of run `number` of --seeds: FILE-number.h5 for FILE.h5.
std::string with_number(const std::string& path, int number);

}  // namespace vaecf::app
