#include "app/command_line.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/config/config.hpp>

#include <CLI/CLI.hpp>

#include "app/version.hpp"

#include <charconv>
#include <cstdint>
#include <limits>
#include <sstream>
#include <system_error>

namespace vaecf::app {
namespace {

constexpr const char* footer =
    "Examples:\n"
    "  vaecf_dist synthesize data/quickstart.h5 --users 20000 --items 3000\n"
    "  mpirun -np 2 --bind-to none vaecf_dist configs/quickstart.yaml\n"
    "  vaecf_dist recommend configs/quickstart.yaml --top 10\n"
    "Exit codes: 0 done; 1 failed while running; 2 wrong usage, configuration or input; "
    "75 stopped on request (signal USR1) with a checkpoint written: --resume auto goes on.";

void add_verbosity(CLI::App& app, CommandLine& line) {
  auto* verbose = app.add_flag_callback(
      "-v,--verbose", [&line] { line.verbosity = Verbosity::verbose; }, "say more");
  app.add_flag_callback(
         "-q,--quiet", [&line] { line.verbosity = Verbosity::quiet; }, "results, warnings and errors only")
      ->excludes(verbose);
}

/// Adds a command with its examples, one a line. Some versions of CLI11 wrap lines of 80 characters.
CLI::App& add_command(CLI::App& app, CommandLine& line, Command command, const char* name,
                      const char* purpose, const std::string& examples) {
  CLI::App* added = app.add_subcommand(name, purpose);
  added->callback([&line, command] { line.command = command; });
  added->footer("Examples:\n" + examples);
  add_verbosity(*added, line);
  return *added;
}

void add_set(CLI::App& app, CommandLine& line) {
  app.add_option("--set", line.overrides, "set one key, e.g. --set train.epochs=2; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

void add_config(CLI::App& app, CommandLine& line, bool required) {
  app.add_option("CONFIG.yaml", line.config, "configuration; --help-config lists its keys")
      ->required(required);
  add_set(app, line);
}

/// CLI11's own check tells of numbers with 300 digits, and takes -1 for the largest unsigned number.
template <class Number>
CLI::Validator at_least(Number least) {
  const auto check = [least](const std::string& text) {
    Number value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (stop == end && error == std::errc() && value >= least) return std::string();
    return format("{} is not a whole number from {} to {}", text, least, std::numeric_limits<Number>::max());
  };
  return {check, "NUMBER"};
}

/// An empty value is a variable that a script has not set: leaving the option out means something else.
void refuse_empty_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& value : option->results()) {
      if (!value.empty()) continue;
      throw InputError(
          format("{} has an empty value: give one, or leave it out; vaecf_dist --help shows how to call it",
                 option->get_name()));
    }
  }
  for (const CLI::App* command : app.get_subcommands()) refuse_empty_values(*command);
}

void add_run(CLI::App& app, CommandLine& line) {
  add_config(app, line, false);
  app.add_flag("--train", line.train, "train and keep the best checkpoint");
  app.add_flag("--test", line.test, "test the best checkpoint; without any flag: --train --test");
  app.add_flag("--benchmark", line.benchmark, "measure the speed of training steps");
  app.add_option(
         "--resume", line.resume,
         "auto: train on from the newest whole checkpoint of the run folder, if there is one; or from FILE")
      ->type_name("auto|never|FILE")
      ->capture_default_str();
  app.add_option("--timeline", line.timeline,
                 "write what all ranks did when, as JSON for ui.perfetto.dev or chrome://tracing")
      ->type_name("FILE");
}

void add_replace(CLI::App& command, bool& replace) {
  command.add_flag("--replace", replace,
                   "replace a file that is not an intact dataset of prepare or synthesize");
}

void add_prepare(CLI::App& app, CommandLine& line) {
  auto& command = add_command(app, line, Command::prepare, "prepare",
                              "raw ratings -> the HDF5 dataset named by data.file",
                              "  vaecf_dist prepare configs/ml20m.yaml\n"
                              "  vaecf_dist prepare configs/ml1m.yaml --set data.prepare.seed=7 --force");
  add_config(command, line, true);
  command.add_flag("--strict", line.prepare.strict, "odd lines are errors, not counted, shown and left out");
  command.add_flag("--force", line.prepare.force,
                   "make it even if it is there, of the same source and options");
  add_replace(command, line.prepare.replace);
  command.footer("data.source.format:\n" + data::describe_source_formats() + "\n" + command.get_footer());
}

void add_synthesize(CLI::App& app, CommandLine& line) {
  auto& command =
      add_command(app, line, Command::synthesize, "synthesize", "make up a dataset with real structure",
                  "  vaecf_dist synthesize data/quickstart.h5 --users 20000 --items 3000\n"
                  "  vaecf_dist synthesize data/big.h5 --users 1000000 --items 100000 --compression 1");
  auto& options = line.synthesize;
  command.add_option("OUT.h5", line.output, "the dataset to write")->required();
  command.add_option("--users", options.users, "all users, held-out ones included")->capture_default_str();
  command.add_option("--items", options.items, "items")->capture_default_str();
  command.add_option("--interactions-per-user", options.interactions_per_user, "mean")->capture_default_str();
  command.add_option("--seed", options.seed, "the same seed makes the same data")
      ->check(at_least(std::uint64_t{0}))
      ->capture_default_str();
  command.add_option("--validation-users", options.validation_users, "default: a tenth, at most 10,000")
      ->check(at_least(std::int64_t{0}));
  command.add_option("--test-users", options.test_users, "default: a tenth, at most 10,000")
      ->check(at_least(std::int64_t{0}));
  command.add_option("--tastes", options.tastes, "number of latent groups")->capture_default_str();
  command
      .add_option("--user-columns", options.user_columns,
                  "columns that tell something of each user: country, age, occupation, gender, ..")
      ->capture_default_str();
  command.add_option("--compression", options.compression, "0 none; 1 to 9 shuffle and deflate")
      ->check(CLI::Range(0, 9))
      ->capture_default_str();
  add_replace(command, options.replace);
}

void add_recommend(CLI::App& app, CommandLine& line) {
  auto& command =
      add_command(app, line, Command::recommend, "recommend",
                  "top items for users, with the source's own ids; alone, or under mpirun on all ranks",
                  "  vaecf_dist recommend configs/ml20m.yaml --top 10 --output top.tsv\n"
                  "  vaecf_dist recommend configs/ml20m.yaml --input new_users.csv\n"
                  "  mpirun -np 4 vaecf_dist recommend configs/ml20m.yaml --split all \\\n"
                  "      --output all.h5");
  auto& arguments = line.recommend;
  add_config(command, line, true);
  command.add_option("--checkpoint", arguments.checkpoint,
                     "default: best.h5 of the configuration's run folder");
  auto* input =
      command.add_option("--input", arguments.input,
                         "lines user,item of users never seen, TSV or CSV, or as data.source describes them; "
                         "items by id or title");
  auto* users =
      command
          .add_option(
              "--users", arguments.users,
              "table of what is known of the users of --input, or, without it, of all who are to get recommendations; "
              "with the columns that the dataset was prepared with")
          ->type_name("FILE");
  auto* split =
      command
          .add_option("--split", arguments.split,
                      "users of the dataset: train, validation, test, or all with all that they have")
          ->check(CLI::IsMember({"train", "validation", "test", "all"}))
          ->capture_default_str();
  input->excludes(split);
  users->excludes(split);
  command.add_option("--user", arguments.user, "this user only, by the source's id");
  command.add_option("--top", arguments.top, "items per user")->check(at_least(1))->capture_default_str();
  command.add_flag("--keep-seen", arguments.keep_seen, "do not leave out what users have");
  command.add_option("--exclude", arguments.exclude, "file of items, one a line, that nobody gets")
      ->type_name("FILE");
  command.add_option("--include", arguments.include, "file of items, one a line: recommend no others")
      ->type_name("FILE");
  command.add_flag("--titles", arguments.titles, "add a column with titles, where the dataset has them");
  command.add_option("--output", arguments.output,
                     ".tsv, .csv or .h5 file; -, the default: TSV on standard output");
  command.add_option("--format", arguments.format, "whatever the output's name")
      ->check(CLI::IsMember({"tsv", "csv", "hdf5"}));
}

void add_inspect(CLI::App& app, CommandLine& line) {
  auto& command = add_command(app, line, Command::inspect, "inspect",
                              "what a dataset or a checkpoint holds, or how a run went",
                              "  vaecf_dist inspect data/ml20m.h5\n"
                              "  vaecf_dist inspect runs/ml20m/checkpoints/best.h5\n"
                              "  vaecf_dist inspect runs/ml20m --metric recall@20");
  command
      .add_option("FILE|RUN", line.subject,
                  "a dataset, a checkpoint, a metrics.jsonl, or the folder of a run")
      ->required();
  command.add_option("--metric", line.metric, "of a run; default: the one it selects by");
}

void add_export(CLI::App& app, CommandLine& line) {
  auto& command =
      add_command(app, line, Command::export_model, "export",
                  "a checkpoint as safetensors, or as an ONNX model that scores",
                  "  vaecf_dist export runs/ml20m/checkpoints/best.h5 --output model.onnx\n"
                  "  vaecf_dist export runs/ml20m/checkpoints/best.h5 --output model.safetensors");
  command.add_option("CHECKPOINT", line.subject, "the checkpoint")->required();
  command.add_option("--output", line.output, "a .safetensors or .onnx file")->required();
  command.add_option("--data", line.data, "its dataset, where it is no longer where it was")
      ->type_name("FILE.h5");
}

void add_doctor(CLI::App& app, CommandLine& line) {
  auto& command = add_command(
      app, line, Command::doctor, "doctor",
      "what these machines offer, and what is wrong with it: alone, or under mpirun for all ranks; "
      "exit code 1 where something has to be mended",
      "  vaecf_dist doctor\n"
      "  vaecf_dist doctor configs/ml20m.yaml --quick\n"
      "  mpirun -np 4 --hostfile hosts vaecf_dist doctor configs/ml20m.yaml");
  add_config(command, line, false);
  command.add_flag("--json", line.json, "one JSON object instead of a table");
  command.add_flag("--quick", line.quick, "only look, measure nothing");
}

void add_scaling(CLI::App& app, CommandLine& line) {
  auto& command = add_command(app, line, Command::scaling, "scaling",
                              "report of a folder of benchmarks at several numbers of ranks; or a prediction",
                              "  vaecf_dist scaling runs/scaling-ml20m\n"
                              "  vaecf_dist scaling configs/ml20m.yaml --ranks 8,64 \\\n"
                              "      --predict configs/machines/dgx-h100.yaml");
  auto& arguments = line.scaling;
  command
      .add_option("FOLDER|CONFIG.yaml", arguments.subject,
                  "the runs that launch/scaling made; or, with --predict, what to predict for")
      ->required();
  auto* batch = command
                    .add_option("--batch", arguments.batch_size,
                                "users a step of strong scaling, 0: none; default: of most runs")
                    ->check(at_least(std::int64_t{0}));
  auto* users = command
                    .add_option("--users-per-rank", arguments.users_per_rank,
                                "users a step and rank of weak scaling, 0: none; default: of most runs")
                    ->check(at_least(std::int64_t{0}));
  auto* predict = command.add_option(
      "--predict", arguments.machine,
      "predict for the machine that this file describes (machine.*), for as many users a step as train.batch_size says");
  predict->excludes(batch)->excludes(users);
  predict->type_name("MACHINE.yaml");
  command.add_option("--ranks", arguments.ranks, "to predict for")->delimiter(',')->needs(predict);
  command.add_option("--items", arguments.items, "where data.file is not there to tell")->needs(predict);
  command.add_option("--interactions-per-user", arguments.interactions_per_user, "likewise")->needs(predict);
  add_set(command, line);
}

}  // namespace

std::string version_text() {
  return *commit == '\0' ? std::string(version) : format("{} ({})", version, commit);
}

CommandLine parse_command_line(int argc, const char* const* argv) {
  CommandLine line;
  bool help_config = false;
  CLI::App app(
      "Distributed trainer for variational autoencoders for collaborative filtering (Mult-VAE, Mult-DAE).",
      "vaecf_dist");
  app.footer(footer);
  app.set_version_flag("--version", "vaecf_dist " + version_text());
  app.add_flag("--help-config", help_config, "every key of the configuration with default and meaning");
  add_run(app, line);
  add_verbosity(app, line);
  for (const auto add :
       {add_prepare, add_synthesize, add_recommend, add_inspect, add_export, add_doctor, add_scaling})
    add(app, line);
  app.require_subcommand(0, 1);

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // --help, --version
    std::ostringstream out;
    app.exit(wanted, out, out);
    line.command = Command::print;
    line.text = out.str();
    return line;
  } catch (const CLI::ParseError& error) {
    throw InputError(format("{}; vaecf_dist --help shows how to call it", error.what()));
  }
  refuse_empty_values(app);
  if (line.recommend.output == "-") line.recommend.output.clear();
  if (help_config) {
    line.command = Command::print;
    line.text = config::reference();
  } else if (line.command == Command::run && line.config.empty()) {
    throw InputError("a configuration or a command is missing; vaecf_dist --help shows how to call it");
  }
  const bool any = line.train || line.test || line.benchmark;
  if (!any) line.train = line.test = true;
  if (!line.train && line.resume != "never" && line.resume != "auto") {
    throw InputError(
        format("--resume {} names a checkpoint to train on from, and nothing is to be trained: add --train; "
               "--test takes best.h5 of the run folder (vaecf_dist --help)",
               line.resume));
  }
  return line;
}

}  // namespace vaecf::app
