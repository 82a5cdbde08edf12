#include <vaecf/data/synthesize.hpp>
#include <vaecf/io/atomic_file.hpp>

#include <CLI/CLI.hpp>

#include <limits>

#include "app/command_line.hpp"
#include "app/console.hpp"

namespace vaecf::app {
namespace {

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

}  // namespace

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
