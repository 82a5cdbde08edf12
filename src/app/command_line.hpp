#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/data/synthesize.hpp>

#include <string>
#include <vector>

namespace vaecf::app {

/// The command to run; `print` writes CommandLine::text.
enum class Command { run, prepare, synthesize, recommend, similar, inspect, export_model, doctor, print };

/// Arguments of `recommend`.
struct RecommendArguments {
  std::string checkpoint;  ///< empty: best.h5 of the configuration's run folder
  std::string input;       ///< file of user,item lines; empty: users of `split`
  std::string users;       ///< table of features of new users; empty: none
  std::string split = "test";
  std::vector<std::string> user;  ///< ids in the source of the only users
  std::string user_list;          ///< file of ids of the only users; both empty: all users
  int top = 10;
  bool keep_seen = false;  ///< also recommend items that the user already has
  std::string exclude;     ///< file of items never to recommend; empty: none
  std::string include;     ///< file of the only items to recommend; empty: all
  bool titles = false;     ///< add a column of titles
  std::string output;      ///< empty: standard output
  std::string format;      ///< tsv, csv, jsonl, json, hdf5; empty: by the output's ending
};

/// Arguments of `similar`.
struct SimilarArguments {
  std::string checkpoint;          ///< empty: best.h5 of the configuration's run folder
  std::vector<std::string> items;  ///< ids in the source
  int top = 10;
  bool titles = false;  ///< add a column of titles
  std::string output;   ///< empty: standard output
};

/// The parsed command line.
struct CommandLine {
  Command command = Command::run;
  std::string config;  ///< path of the YAML file; empty: the configuration in the checkpoint
  std::vector<std::string> overrides;
  bool train = false;
  bool test = false;
  bool benchmark = false;
  std::string resume = "never";  ///< never, auto, or a checkpoint's path
  std::string start_from;        ///< checkpoint with the initial weights; empty: random weights
  std::string timeline;          ///< file for the trace of all ranks; empty: none
  std::string per_user;          ///< file for the test metrics of each user; empty: none
  Verbosity verbosity = Verbosity::normal;
  std::string output;     ///< synthesize, export: file to write
  std::string path;       ///< inspect, export: the file, or the run folder
  std::string metric;     ///< inspect: the metric of a run to show; empty: validation.select
  bool finished = false;  ///< inspect: only check whether the run is finished
  std::string run_id;     ///< inspect: id of the start to check; empty: the last one
  bool json = false;      ///< doctor: print JSON
  bool quick = false;     ///< doctor: skip the benchmarks
  std::string text;       ///< print: output of --help, --version or --help-config
  data::PrepareFlags prepare;
  data::SynthesizeOptions synthesize;
  RecommendArguments recommend;
  SimilarArguments similar;
};

/// Parses argv. Throws InputError, with a reference to --help, if it is not a valid command line.
CommandLine parse_command_line(int argc, const char* const* argv);

/// Returns the version with the commit, if known: "0.1.0 (abc1234)".
std::string version_text();

}  // namespace vaecf::app
