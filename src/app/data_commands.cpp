#include <vaecf/base/format.hpp>
#include <vaecf/base/host.hpp>
#include <vaecf/base/utf8.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/data/synthesize.hpp>
#include <vaecf/io/atomic_file.hpp>

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <tuple>

#include "app/commands.hpp"
#include "app/progress.hpp"

namespace vaecf::app {
namespace {

/// Returns half of the available memory in GiB.
double memory_for_events() {
  constexpr double gib = 1073741824.0;
  return 0.5 * static_cast<double>(host_memory().available) / gib;
}

/// Throws InputError if `value` is empty. `meaning` describes the value of the key.
void require_key(const std::string& value, const std::string& config, const char* key, const char* meaning) {
  if (value.empty()) throw InputError(format("{}: {} is not set; set it to {}", config, key, meaning));
}

/// Returns the file that standard output of a process refers to; empty if it cannot be read.
std::string output_of(const std::string& process) {
  std::error_code unknown;
  return std::filesystem::read_symlink("/proc/" + process + "/fd/1", unknown).string();
}

/// Returns the process that started `process`; 0 if that cannot be read.
pid_t parent_of(pid_t process) {
  std::ifstream status(format("/proc/{}/status", process));
  pid_t parent = 0;
  for (std::string word; status >> word;)
    if (word == "PPid:") status >> parent;
  return parent;
}

/// Returns whether standard output appears on a terminal. mpirun connects each rank to a terminal of its own,
/// so the first ancestor with another output counts, which is mpirun.
bool appears_on_terminal() {
  if (isatty(STDOUT_FILENO) != 1) return false;
  if (!comm::launched_by_mpi()) return true;
  const std::string own = output_of("self");
  std::string output = own;
  for (pid_t process = getppid(); process > 1 && output == own; process = parent_of(process))
    output = output_of(format("{}", process));
  return output != own && (output.starts_with("/dev/pts/") || output.starts_with("/dev/tty"));
}

/// Logs the keys of data.source and data.prepare that are set but have no effect. Throws InputError for those
/// without which the dataset would be taken for another one.
void check_unused(const config::Config& config, Log& log) {
  const auto& [source, options] = std::tie(config.source, config.prepare);
  std::vector<std::string> unused;
  for (const auto& [key, place] : config.places) {
    if (!key.starts_with("data.source.") && !key.starts_with("data.prepare.")) continue;
    if (data::is_used(key, source, options)) continue;
    if (key == "data.prepare.min_rating" && options.min_rating > 0) {
      throw InputError(format(
          "{}: {} is {}, but no ratings are read; {}", place, key, options.min_rating,
          data::formats_that_use("rating_column").find(source.format) == std::string::npos
              ? format("data.source.format: {} has none, so set {}: 0", source.format, key)
              : "set data.source.rating_column to the column of ratings, or data.prepare.min_rating to 0"));
    }
    if (key == "data.prepare.time_quantiles" || key == "data.prepare.dates") {
      throw InputError(format(
          "{}: {} has no effect with data.prepare.split: {}; set data.prepare.split: time, or remove {}",
          place, key, to_string(options.split), key));
    }
    unused.push_back(key);
  }
  if (unused.empty()) return;
  log.info("data.source.format: {} with data.prepare.split: {} does not use {}", source.format,
           to_string(options.split), join(unused));
}

}  // namespace

void print(const std::string& text) {
  const std::string shown = appears_on_terminal() ? escape(text) : text;
  const bool written =
      std::fwrite(shown.data(), 1, shown.size(), stdout) == shown.size() && std::fflush(stdout) == 0;
  if (!written) throw RunError("cannot write to standard output; check whether the disk is full");
}

void run_prepare(const CommandLine& line) {
  config::Config config = config::load(line.config, line.overrides);
  const std::string& file = config.options.data.file;
  require_key(file, line.config, "data.file", "the path of the HDF5 dataset to write");
  require_key(config.source.format, line.config, "data.source.format", "the format of the raw ratings");
  require_key(config.source.path, line.config, "data.source.path", "the path of the raw ratings");
  if (config.prepare.memory_gib == 0) config.prepare.memory_gib = memory_for_events();
  io::validate_output_path(file, "data.file", {line.config});
  Console console = make_console(line.verbosity);
  for (const std::string& note : config.notes) console.log.warn("{}", note);
  check_unused(config, console.log);
  const auto report = data::prepare(config.source, config.prepare, config.options.name, file, line.prepare,
                                    console.log, *console.progress);
  console.progress->end();
  print(data::to_table(report));
  if (report.up_to_date) {
    console.log.info("{} is up to date, with the same source and options (--force prepares it again)", file);
  } else {
    console.log.info("wrote {}", file);
  }
}

void run_synthesize(const CommandLine& line) {
  io::validate_output_path(line.output, "OUT.h5", {});
  Console console = make_console(line.verbosity);
  data::synthesize(line.synthesize, line.output, console.log, *console.progress);
  console.progress->end();
  console.log.info("wrote {}", line.output);
}

}  // namespace vaecf::app
