#include <vaecf/base/host.hpp>
#include <vaecf/base/text.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/data/prepare_report.hpp>
#include <vaecf/data/source_options.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/json.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "app/command_line.hpp"
#include "app/console.hpp"
#include "app/option_words.hpp"

namespace vaecf::app {
namespace {

namespace fs = std::filesystem;

/// The first line of a configuration that `prepare --file` or vaecf.prepare of Python wrote, which both
/// replace.
constexpr std::string_view written_mark = "# Written by prepare, which replaces this file.\n";

struct PrepareArguments : data::PrepareFlags {
  std::string file;  ///< dataset to write without a configuration; empty: CONFIG.yaml has it
  std::vector<std::pair<std::string, std::string>> keys;  ///< those of the other options, with values as YAML
  OptionKeys options;                                     ///< all options of keys
};

/// Returns a message with options instead of keys, if the call has no configuration.
std::string worded(const std::string& message, const PrepareArguments& arguments) {
  return arguments.file.empty() ? message : option_words(message, arguments.options);
}

/// Throws InputError, which says what to set `key` to, if it has no value.
void require_key(const std::string& value, const std::string& config, const char* key, const char* meaning) {
  if (value.empty()) throw InputError(format("{}: {} is not set; set it to {}", config, key, meaning));
}

/// Warns of keys of data.source and data.prepare that are set but have no effect. Throws InputError for those
/// without which the dataset would be taken for another one.
void check_unused(const config::Config& config, const PrepareArguments& arguments, Log& log) {
  const auto& [source, prepare] = std::tie(config.source, config.prepare);
  const auto place = config.places.find("data.prepare.min_rating");
  if (place != config.places.end() && prepare.min_rating > 0 && !data::has_ratings(source)) {
    throw InputError(format(
        "{}: {} is {}, but no ratings are read; {}", place->second, place->first, prepare.min_rating,
        data::formats_that_use("rating_column").find(source.format) == std::string::npos
            ? format("data.source.format: {} has none, so set {}: null", source.format, place->first)
            : "set data.source.rating_column to the column of ratings, or data.prepare.min_rating to null"));
  }
  const std::vector<std::string> unused = unused_keys(config, config::Command::prepare);
  for (const std::string& key : unused) {
    if (key != "data.prepare.time_quantiles" && key != "data.prepare.dates") continue;
    throw InputError(
        format("{}: {} has no effect with data.prepare.split: {}; set data.prepare.split: time, or remove {}",
               config.places.at(key), key, to_string(prepare.split), key));
  }
  if (unused.empty()) return;
  const std::string text =
      format("data.source.format: {} with data.prepare.split: {} does not use {}; remove what has no effect",
             source.format, to_string(prepare.split), join(unused));
  log.warn("{}", worded(text, arguments));
}

/// Returns a text as YAML.
std::string quoted(const std::string& text) {
  return io::dump(io::Json(text));
}

/// Returns names of columns, with commas between them, as YAML.
std::string quoted_list(const std::string& names) {
  io::Json list = io::Json::array();
  std::istringstream text(names);
  for (std::string name; std::getline(text, name, ',');) list.push_back(name);
  return io::dump(list);
}

std::string absolute(const std::string& path) {
  return fs::absolute(path).lexically_normal().string();
}

/// Returns the keys of the source of a text file, its folder or a pattern: how its lines are read follows
/// from the endings of its name, or of the names in the folder.
std::vector<std::pair<std::string, std::string>> source_keys(const std::string& path) {
  std::string name = fs::path(path).filename().string();
  std::error_code unknown;
  if (fs::is_directory(path, unknown)) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path, unknown)) {
      const std::string inner = entry.path().filename().string();
      if (inner[0] != '.' && inner[0] != '_') names.push_back(inner);
    }
    if (!names.empty()) name = *std::ranges::min_element(names);
  }
  const auto has = [&](const char* ending) {
    const std::size_t at = name.find(ending);
    return at != std::string::npos && (name[at + std::string_view(ending).size()] == '\0' ||
                                       name[at + std::string_view(ending).size()] == '.');
  };
  const bool json = has(".jsonl") || has(".ndjson") || has(".json");
  std::vector<std::pair<std::string, std::string>> keys = {
      {"data.source.format", json ? "json_lines" : "delimited"}, {"data.source.path", quoted(path)}};
  if (has(".tsv")) keys.emplace_back("data.source.separator", quoted("\t"));
  return keys;
}

/// Returns all keys of a call with --file, by name, with values as YAML. Throws InputError if --set repeats
/// one.
std::vector<std::pair<std::string, std::string>> keys_of(const CommandLine& line,
                                                         const PrepareArguments& arguments) {
  std::vector<std::pair<std::string, std::string>> keys = {
      {"name", quoted(fs::path(arguments.file).stem().string())}, {"data.file", quoted(arguments.file)}};
  const auto source = source_keys(line.config);
  keys.insert(keys.end(), source.begin(), source.end());
  keys.insert(keys.end(), arguments.keys.begin(), arguments.keys.end());
  for (const std::string& setting : line.overrides) {
    const std::size_t equals = setting.find('=');
    const std::string key = setting.substr(0, equals);
    const auto same = std::ranges::find(keys, key, &std::pair<std::string, std::string>::first);
    if (same != keys.end() && !key.starts_with("data.source."))
      throw InputError(format("--set {}: {} is also given by an option; give it once", setting, key));
    if (same != keys.end()) keys.erase(same);
    keys.emplace_back(key, equals == std::string::npos ? "" : setting.substr(equals + 1));
  }
  const auto value_of = [&](const char* key) {
    const auto found = std::ranges::find(keys, key, &std::pair<std::string, std::string>::first);
    return found == keys.end() ? "" : found->second;
  };
  for (const auto& [table, ids, same] :
       {std::tuple("data.source.users.path", "data.source.users.user_column", "data.source.user_column"),
        std::tuple("data.source.items.path", "data.source.items.item_column", "data.source.item_column")}) {
    const std::string column = value_of(same);
    if (!value_of(table).empty() && value_of(ids).empty() && !column.empty()) keys.emplace_back(ids, column);
  }
  return keys;
}

/// Returns the path of the configuration that is written beside the dataset. Throws InputError if another
/// file is there.
std::string config_beside(const std::string& file) {
  fs::path path(file);
  path.replace_extension(".yaml");
  if (path == fs::path(file))
    throw InputError(format("--file {}: a dataset cannot end in .yaml; choose a name such as {}", file,
                            fs::path(file).replace_extension(".h5").string()));
  std::ifstream existing(path, std::ios::binary);
  std::string start(written_mark.size(), '\0');
  if (existing.is_open() &&
      (!existing.read(start.data(), static_cast<std::streamsize>(start.size())) || start != written_mark)) {
    throw InputError(
        format("{} was not written by prepare; choose another --file, or move it away", path.string()));
  }
  return path.string();
}

/// Returns the configuration of these keys, with absolute paths, so that it works in any folder.
std::string configuration_text(const std::vector<std::pair<std::string, std::string>>& keys,
                               const config::Config& config) {
  const std::map<std::string, std::string> paths = {{"data.file", config.options.data.file},
                                                    {"data.source.path", config.source.path},
                                                    {"data.source.users.path", config.source.users.path},
                                                    {"data.source.items.path", config.source.items.path}};
  std::string text(written_mark);
  for (const auto& [key, value] : keys) {
    const auto path = paths.find(key);
    const bool is_path = path != paths.end() && !path->second.empty();
    text += format("{}: {}\n", key, is_path ? quoted(absolute(path->second)) : value);
  }
  return text;
}

/// Prepares the dataset. The messages that it throws have keys.
void prepare(const CommandLine& line, const PrepareArguments& arguments) {
  const bool by_options = !arguments.file.empty();
  if (!by_options && !arguments.keys.empty())
    throw InputError(format(
        "{}: the options of keys require --file; with a configuration use --set (see vaecf_dist prepare --help)",
        line.config));
  config::Config config;
  std::string beside;
  std::string text;
  if (by_options) {
    beside = config_beside(arguments.file);
    std::error_code unknown;
    if (line.config.find_first_of("*?[") == std::string::npos && !fs::exists(line.config, unknown))
      throw InputError(format("{}: no such file; pass a file of events, a folder or a pattern", line.config));
    const auto keys = keys_of(line, arguments);
    std::vector<std::string> overrides;
    for (const auto& [key, value] : keys) overrides.push_back(format("{}={}", key, value));
    config = config::parse("{}", line.config, overrides);
    text = configuration_text(keys, config);
  } else {
    config = config::load(line.config, line.overrides);
  }
  const std::string& file = config.options.data.file;
  require_key(file, line.config, "data.file", "the path of the HDF5 dataset to write");
  require_key(config.source.format, line.config, "data.source.format", "the format of the raw ratings");
  require_key(config.source.path, line.config, "data.source.path", "the path of the raw ratings");
  if (config.prepare.memory_gib == 0)  // half of the available memory
    config.prepare.memory_gib = 0.5 * free_memory_bytes() / 1073741824.0;
  io::validate_output_path(file, "data.file", {line.config});
  Console console = make_console(line.verbosity);
  for (const std::string& note : config.notes) console.log.warn("{}", note);
  check_unused(config, arguments, console.log);
  const auto report = data::prepare(config.source, config.prepare, config.options.name, file, arguments,
                                    console.log, *console.progress);
  console.progress->end();
  print(data::to_table(report));
  if (report.up_to_date) {
    console.log.info("{} is up to date, with the same source and options (--force prepares it again)", file);
  } else {
    console.log.info("wrote {}", file);
  }
  if (!by_options) return;
  io::AtomicOutputFile configuration(beside);
  configuration.write(text);
  configuration.commit();
  console.log.info("wrote {}, with which the other commands work: vaecf_dist {}", beside, beside);
}

void run_prepare(const CommandLine& line, const PrepareArguments& arguments) {
  try {
    prepare(line, arguments);
  } catch (const InputError& error) {
    if (error.code() == ExitCode::busy) throw;
    throw InputError(worded(error.what(), arguments));
  }
}

/// Adds the options for a call without a configuration, named as those of `vaecf prepare`.
void add_keys(CLI::App& command, const std::shared_ptr<PrepareArguments>& arguments) {
  command
      .add_option(
          "--file", arguments->file,
          "without a configuration: the dataset to write; DATA.yaml beside it becomes the configuration")
      ->type_name("DATA.h5");
  const auto add = [&](const char* option, const char* key, const char* description, const char* type,
                       std::string (*as_yaml)(const std::string& text)) {
    arguments->options.emplace_back(option, key);
    return command
        .add_option_function<std::string>(
            option,
            [arguments, key = std::string(key), as_yaml](const std::string& value) {
              arguments->keys.emplace_back(key, as_yaml(value));
            },
            description)
        ->type_name(type)
        ->allow_extra_args(false);
  };
  const auto plain = [](const std::string& text) { return text; };
  add("--user", "data.source.user_column", "column of user ids", "COLUMN", quoted);
  add("--item", "data.source.item_column", "column of item ids", "COLUMN", quoted);
  add("--rating", "data.source.rating_column", "column of ratings or counts; default: every line counts",
      "COLUMN", quoted);
  add("--time", "data.source.time_column", "column of times; default: lines are in the order of time",
      "COLUMN", quoted);
  auto* items = add("--items", "data.source.items.path",
                    "table of items; its ids are in the column of the same name, by default in the first",
                    "FILE", quoted);
  add("--users", "data.source.users.path",
      "table of users; its ids are in the column of the same name, by default in the first", "FILE", quoted);
  add("--title", "data.source.items.title_column", "column of titles in the table of items", "COLUMN", quoted)
      ->needs(items);
  add("--item-features", "data.prepare.item_features", "columns of the table of items that become features",
      "COLUMN,...", quoted_list);
  add("--user-features", "data.prepare.user_features", "columns of the table of users that become features",
      "COLUMN,...", quoted_list);
  arguments->options.insert(arguments->options.end(),
                            {{"--file", "data.file"}, {"--dates", "data.prepare.dates"}});
  command
      .add_option_function<std::vector<std::string>>(
          "--dates",
          [arguments](const std::vector<std::string>& dates) {
            arguments->keys.emplace_back("data.prepare.dates",
                                         format("[{}, {}]", quoted(dates.at(0)), quoted(dates.at(1))));
          },
          "the two cuts of --split time")
      ->type_name("DATE DATE")
      ->expected(2);
  for (const char* const key : {"duplicates", "min_rating", "split", "validation_users", "test_users",
                                "min_user_items", "min_item_users", "seed"}) {
    std::string option = format("--{}", key);
    std::ranges::replace(option, '_', '-');
    const std::string full = format("data.prepare.{}", key);
    add(option.c_str(), full.c_str(), format("the key {}", full).c_str(), "VALUE", plain);
  }
}

}  // namespace

void add_prepare(CLI::App& app, CommandLine& line) {
  const auto flags = std::make_shared<PrepareArguments>();
  auto& command = add_command(
      app, line, "prepare",
      "convert raw ratings into an HDF5 dataset: as a configuration says, or of a file of events by --file",
      "  vaecf_dist prepare ratings.csv --file data/own.h5\n"
      "  vaecf_dist prepare configs/ml20m.yaml\n"
      "  vaecf_dist prepare configs/ml1m.yaml --set data.prepare.seed=7 --force",
      with(flags, run_prepare));
  command
      .add_option("CONFIG.yaml|EVENTS", line.config,
                  "configuration file; with --file: a text file of events, a folder of them or a pattern")
      ->required();
  add_set(command, line);
  add_keys(command, flags);
  command.add_flag("--strict", flags->strict,
                   "treat malformed lines as errors instead of reporting and skipping them");
  command.add_flag("--force", flags->force,
                   "prepare again even if the dataset exists with the same source and options");
  add_replace(command, flags->replace);
  command.footer("data.source.format:\n" + data::describe_source_formats() + "\n" + command.get_footer());
}

}  // namespace vaecf::app
