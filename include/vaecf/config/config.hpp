#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/device/options.hpp>
#include <vaecf/scaling/model.hpp>
#include <vaecf/train/session.hpp>

#include <map>
#include <span>
#include <string>
#include <vector>

/// YAML -> one struct made of the rooms' own option structs. One table of keys drives reading, errors, the
/// dump of a resolved configuration and the reference text.
namespace vaecf::config {

struct Config {
  train::SessionOptions session;  ///< `configuration_text` is filled by load and parse
  data::SourceOptions source;
  data::PrepareOptions prepare;
  device::BackendOptions backend;
  scaling::Machine machine;             ///< that speed is predicted for
  std::vector<std::string> notes = {};  ///< for the log: keys by their old names, and ignored ones
};

/// Old names of keys and sections, each with its name of today. Both are read.
using Renames = std::map<std::string, std::string>;
inline const Renames renamed_keys = {};

/// Reads the file at `path`, then applies `overrides`, each "key.path=value" with the value as YAML.
/// InputError names file and line (or the override), the key, and what it wants or what may have been meant.
Config load(const std::string& path, std::span<const std::string> overrides = {});

/// The same from text; `name` stands for the file in errors.
Config parse(const std::string& text, const std::string& name, std::span<const std::string> overrides = {},
             const Renames& renames = renamed_keys);

/// Reads the configuration inside a checkpoint, which another version may have written: keys that this
/// version does not have are ignored, and so are values that it does not take unless require_same_run
/// compares them.
Config parse_stored(const std::string& text, const std::string& checkpoint,
                    const Renames& renames = renamed_keys);

/// Every key as resolved, as YAML that `parse` reads back to the same configuration.
std::string dump(const Config& config);

/// A key whose value is not the same in two configurations.
struct Difference {
  std::string key, first, second;
};
std::vector<Difference> differences(const Config& first, const Config& second);

/// InputError naming both values where a run that goes on from `checkpoint`, written under `its_text`, would
/// be another run under `config`. Compares model.*, train.* and data.virtual_shards.
void require_same_run(const Config& config, const std::string& checkpoint, const std::string& its_text,
                      Log& log);

/// Every key with its default, its meaning and its allowed values, as YAML with comments.
std::string reference();

}  // namespace vaecf::config
