#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/data/synthesize.hpp>

#include <string>
#include <vector>

namespace vaecf::app {

enum class Command { run, prepare, synthesize, recommend, inspect, export_model, doctor, scaling, print };

struct RecommendArguments {
  std::string checkpoint;  ///< empty: best.h5 of the configuration's run folder
  std::string input;       ///< file of user,item lines; empty: users of `split`
  std::string users;       ///< table of what is known of people never seen; empty: none
  std::string split = "test";
  std::string user;  ///< only this one, by the source's id
  int top = 10;
  bool keep_seen = false;  ///< recommend what users have, too
  std::string exclude;     ///< file of items that nobody gets; empty: none
  std::string include;     ///< file of the only items to recommend; empty: all
  bool titles = false;     ///< a column of titles
  std::string output;      ///< empty: standard output
  std::string format;      ///< tsv, csv, hdf5; empty: by the output's extension
};

struct ScalingArguments {
  std::string subject;     ///< a folder of runs; with `machine` a configuration
  double batch_size = -1;  ///< of strong scaling; 0: none; below: that of most runs
  double users_per_rank = -1;
  std::string machine;  ///< predict for the machine that this file describes
  std::vector<int> ranks;
  std::int64_t items = 0;  ///< where there is no dataset to tell
  double interactions_per_user = 0;
};

/// The request that argv holds.
struct CommandLine {
  Command command = Command::run;
  std::string config;  ///< path of the YAML file
  std::vector<std::string> overrides;
  bool train = false;
  bool test = false;
  bool benchmark = false;
  std::string resume = "never";  ///< never, auto, or a checkpoint's path
  std::string timeline;          ///< file to write what all ranks did when; empty: none
  Verbosity verbosity = Verbosity::normal;
  std::string output;   ///< synthesize, export
  std::string data;     ///< export: the dataset; empty: the one that the checkpoint names
  std::string subject;  ///< inspect: the file, or the folder of a run
  std::string metric;   ///< inspect, of a run: the curve to draw; empty: what it selects by
  bool json = false;    ///< doctor
  bool quick = false;   ///< doctor: no measurements
  std::string text;     ///< print: --help, --version, --help-config
  data::PrepareMode prepare;
  data::SynthesizeOptions synthesize;
  RecommendArguments recommend;
  ScalingArguments scaling;
};

/// InputError with a hint where argv is no command of ours.
CommandLine parse_command_line(int argc, const char* const* argv);

/// "0.1.0 (abc1234)"
std::string version_text();

}  // namespace vaecf::app
