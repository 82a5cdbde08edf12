#include <vaecf/base/host.hpp>
#include <vaecf/base/text.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/data/prepare_report.hpp>
#include <vaecf/data/source_options.hpp>
#include <vaecf/data/synthesize.hpp>
#include <vaecf/io/atomic_file.hpp>

#include <CLI/CLI.hpp>

#include <limits>
#include <tuple>

#include "app/command_line.hpp"
#include "app/console.hpp"

namespace vaecf::app {
namespace {

/// Throws InputError, which says what to set `key` to, if it has no value.
void require_key(const std::string& value, const std::string& config, const char* key, const char* meaning) {
  if (value.empty()) throw InputError(format("{}: {} is not set; set it to {}", config, key, meaning));
}

/// Warns of keys of data.source and data.prepare that are set but have no effect. Throws InputError for those
/// without which the dataset would be taken for another one.
void check_unused(const config::Config& config, Log& log) {
  const auto& [source, options] = std::tie(config.source, config.prepare);
  const auto place = config.places.find("data.prepare.min_rating");
  if (place != config.places.end() && options.min_rating > 0 && !data::has_ratings(source)) {
    throw InputError(format(
        "{}: {} is {}, but no ratings are read; {}", place->second, place->first, options.min_rating,
        data::formats_that_use("rating_column").find(source.format) == std::string::npos
            ? format("data.source.format: {} has none, so set {}: 0", source.format, place->first)
            : "set data.source.rating_column to the column of ratings, or data.prepare.min_rating to 0"));
  }
  const std::vector<std::string> unused = unused_keys(config, config::Command::prepare);
  for (const std::string& key : unused) {
    if (key != "data.prepare.time_quantiles" && key != "data.prepare.dates") continue;
    throw InputError(
        format("{}: {} has no effect with data.prepare.split: {}; set data.prepare.split: time, or remove {}",
               config.places.at(key), key, to_string(options.split), key));
  }
  if (unused.empty()) return;
  log.warn("data.source.format: {} with data.prepare.split: {} does not use {}; remove what has no effect",
           source.format, to_string(options.split), join(unused));
}

void run_prepare(const CommandLine& line, const data::PrepareFlags& flags) {
  config::Config config = config::load(line.config, line.overrides);
  const std::string& file = config.options.data.file;
  require_key(file, line.config, "data.file", "the path of the HDF5 dataset to write");
  require_key(config.source.format, line.config, "data.source.format", "the format of the raw ratings");
  require_key(config.source.path, line.config, "data.source.path", "the path of the raw ratings");
  if (config.prepare.memory_gib == 0)  // half of the available memory
    config.prepare.memory_gib = 0.5 * free_memory_bytes() / 1073741824.0;
  io::validate_output_path(file, "data.file", {line.config});
  Console console = make_console(line.verbosity);
  for (const std::string& note : config.notes) console.log.warn("{}", note);
  check_unused(config, console.log);
  const auto report = data::prepare(config.source, config.prepare, config.options.name, file, flags,
                                    console.log, *console.progress);
  console.progress->end();
  print(data::to_table(report));
  if (report.up_to_date) {
    console.log.info("{} is up to date, with the same source and options (--force prepares it again)", file);
  } else {
    console.log.info("wrote {}", file);
  }
}

struct SynthesizeArguments : data::SynthesizeOptions {
  std::string output;  ///< file to write
};

void run_synthesize(const CommandLine& line, const SynthesizeArguments& arguments) {
  io::validate_output_path(arguments.output, "OUT.h5", {});
  Console console = make_console(line.verbosity);
  data::synthesize(arguments, arguments.output, console.log, *console.progress);
  console.progress->end();
  console.log.info("wrote {}", arguments.output);
}

void add_replace(CLI::App& command, bool& replace) {
  command.add_flag("--replace", replace,
                   "overwrite the file even if it is not an intact dataset of prepare or synthesize");
}

}  // namespace

void add_prepare(CLI::App& app, CommandLine& line) {
  const auto flags = std::make_shared<data::PrepareFlags>();
  auto& command = add_command(app, line, "prepare",
                              "convert raw ratings into an HDF5 dataset, the file of the key data.file",
                              "  vaecf_dist prepare configs/ml20m.yaml\n"
                              "  vaecf_dist prepare configs/ml1m.yaml --set data.prepare.seed=7 --force",
                              with(flags, run_prepare));
  add_config(command, line, true);
  command.add_flag("--strict", flags->strict,
                   "treat malformed lines as errors instead of reporting and skipping them");
  command.add_flag("--force", flags->force,
                   "prepare again even if the dataset exists with the same source and options");
  add_replace(command, flags->replace);
  command.footer("data.source.format:\n" + data::describe_source_formats() + "\n" + command.get_footer());
}

void add_synthesize(CLI::App& app, CommandLine& line) {
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  const auto arguments = std::make_shared<SynthesizeArguments>();
  auto& command =
      add_command(app, line, "synthesize",
                  "generate a synthetic dataset with latent tastes and power-law item popularity",
                  "  vaecf_dist synthesize data/quickstart.h5 --users 20000 --items 3000\n"
                  "  vaecf_dist synthesize data/big.h5 --users 1000000 --items 100000 --compression 1",
                  with(arguments, run_synthesize));
  SynthesizeArguments& options = *arguments;
  command.add_option("OUT.h5", options.output, "dataset to write")->required();
  command.add_option("--users", options.users, "number of users, including held-out users")
      ->capture_default_str();
  command.add_option("--items", options.items, "number of items")->capture_default_str();
  command.add_option("--interactions-per-user", options.interactions_per_user, "mean interactions per user")
      ->capture_default_str();
  command.add_option("--seed", options.seed, "random seed; the same seed generates the same data")
      ->check(integer_check(0, std::numeric_limits<std::uint64_t>::max()), "NUMBER")
      ->capture_default_str();
  command
      .add_option("--validation-users", options.validation_users,
                  "number of validation users; default: a tenth of the users, at most 10,000")
      ->check(integer_check(0, most), "NUMBER");
  command
      .add_option("--test-users", options.test_users,
                  "number of test users; default: a tenth of the users, at most 10,000")
      ->check(integer_check(0, most), "NUMBER");
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

}  // namespace vaecf::app
