#pragma once

#include <vaecf/backend/backend.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/scaling/model.hpp>
#include <vaecf/train/session.hpp>

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
  backend::BackendOptions backend;
  scaling::Machine machine;  ///< that speed is predicted for
};

/// Reads the file at `path`, then applies `overrides`, each "key.path=value" with the value as YAML.
/// InputError: names file and line (or the override), the key, and what it wants; unknown keys come with a
/// suggestion.
Config load(const std::string& path, std::span<const std::string> overrides = {});

/// The same from text; `name` stands for the file in errors.
Config parse(const std::string& text, const std::string& name, std::span<const std::string> overrides = {});

/// Every key as resolved, as YAML that `parse` reads back to the same configuration.
std::string dump(const Config& config);

/// A key whose value is not the same in two configurations.
struct Difference {
  std::string key;
  std::string first;
  std::string second;
};
std::vector<Difference> differences(const Config& first, const Config& second);

/// InputError naming both values where a run that goes on from `checkpoint`, which was written under the
/// configuration `its_text`, would be another run under `config`.
void require_same_run(const Config& config, const std::string& checkpoint, const std::string& its_text);

/// Every key with its default, its meaning and its allowed values, as YAML with comments.
std::string reference();

}  // namespace vaecf::config
