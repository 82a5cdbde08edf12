#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/config/training_config.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/data/prepare_options.hpp>
#include <vaecf/data/source_options.hpp>
#include <vaecf/device/options.hpp>

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

/// Reads YAML into one struct that is composed of the modules' option structs. One table of keys drives
/// parsing, error messages, the dump of a resolved configuration and the output of --help-config.
namespace vaecf::config {

/// The complete configuration of a command.
struct Config {
  TrainingConfig options;
  data::SourceOptions source;
  data::PrepareOptions prepare;
  device::BackendOptions backend;
  std::string text = {};                           ///< dump() of the configuration; filled by load and parse
  std::vector<std::string> notes = {};             ///< log messages about ignored keys
  std::map<std::string, std::string> places = {};  ///< keys that are set, with "FILE:LINE" or the override
};

/// Returns PREFIX/share/vaecf_dist if it is a folder, where PREFIX is the folder above that of this program;
/// else an empty path.
std::filesystem::path installed_folder();

/// Returns the path of the configuration that a command line names: `path` if it exists or is absolute, else
/// the file of that name in `installed` if there is one, else `path`.
std::string find(const std::string& path, const std::filesystem::path& installed = installed_folder());

/// Reads the file at `path`, then applies `overrides`, each "key.path=value" with the value as YAML. A
/// config.yaml beside the metrics.jsonl of a run is the configuration of that run: before `overrides`, name
/// and run.directory are set to its folder, which may have been moved. Throws InputError if a file, key or
/// value is invalid; the message names the file and line (or the override), the key, and the allowed values
/// or the closest valid key.
Config load(const std::string& path, std::span<const std::string> overrides = {});

/// Reads the YAML string `text`, then applies `overrides` as load() does. `name` replaces the file name in
/// error messages. Throws InputError like load().
Config parse(const std::string& text, const std::string& name, std::span<const std::string> overrides = {});

/// Returns the configuration `text` as a checkpoint stores it: of `model`, with only the keys that the model
/// uses, so that its readers can refuse unknown ones. A key that is added after 1.0 is left out while its
/// value does not change what the model computes.
std::string stored_text(const std::string& text);

/// Reads the configuration stored in a checkpoint, possibly written by another version. Unknown keys outside
/// of `model` are ignored, and so are invalid values of keys that require_resumable() does not compare;
/// Config::notes lists them. Throws InputError for an unknown key of `model`, and if the value of a compared
/// key is invalid. `checkpoint` is its path, for messages.
Config parse_stored(const std::string& text, const std::string& checkpoint);

/// Reads the configuration stored in a checkpoint as parse_stored() does, to serve its model on any machine:
/// device, backend.* and distributed.* have their defaults. Then applies `overrides` as load() does. Throws
/// InputError like both.
Config parse_served(const std::string& text, const std::string& checkpoint,
                    std::span<const std::string> overrides);

/// Returns every key with its resolved value, as YAML that parse() reads back to the same configuration.
std::string dump(const Config& config);

/// A key whose value differs between two configurations.
struct Difference {
  std::string key, first, second;
};

/// Returns the keys whose values differ, in the order of dump().
std::vector<Difference> differences(const Config& first, const Config& second);

/// Command whose keys unused_keys() lists: `train` also tests.
enum class Command { prepare, train };

/// Returns the keys that are set to another value than the default but have no effect on the command, with
/// the values of the other keys: those of data.source and data.prepare for `prepare`, else all others.
std::vector<std::string> unused_keys(const Config& config, Command command);

/// Checks that a run with `config` may resume from `checkpoint`, which stores the configuration `its_text`.
/// Compares model.*, train.* and data.virtual_shards, except the keys of train.* that may change on resume.
/// Throws InputError with both values if a compared key differs, or if `its_text` cannot be read.
void require_resumable(const Config& config, const std::string& checkpoint, const std::string& its_text,
                       Log& log);

/// Returns the candidate with the smallest edit distance to `word`; empty if none is close enough for a typo.
std::string closest_match(const std::string& word, const std::vector<std::string>& candidates);

/// Returns every key with its default, description and allowed values, as YAML with comments.
std::string reference_yaml();

}  // namespace vaecf::config
