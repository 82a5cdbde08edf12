#pragma once

#include <vaecf/config/config.hpp>
#include <vaecf/keys/key.hpp>
#include <vaecf/models/kind.hpp>

#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

namespace vaecf::config {

using Key = keys::Key<Config>;

/// Returns the section of the keys of a model: "model.NAME.".
inline std::string section_of(const models::Kind& kind) {
  return format("model.{}.", kind.name());
}

/// Returns all keys in the order of dump() and reference_yaml(); the keys of a section are adjacent.
std::vector<Key> all_keys();

/// Returns whether a minor version may change the key `path` (docs/STABILITY.md).
bool is_experimental(std::string_view path);

/// Returns whether `path` is a key of a model, and not only of other models.
bool describes(const std::string& path, const models::Kind& model);

/// Returns whether models of type `type` use the key `path`, perhaps with other values of other keys.
/// Baselines use the keys of models that are solved.
bool is_used(const std::string& path, models::ModelType type);

/// Returns whether `path` is a key that require_resumable() compares, or a section with such a key.
bool must_match_on_resume(const std::string& path);

/// Returns the node as quoted in error messages, truncated: "many", [1, 2], a section of keys, nothing.
std::string quote(const YAML::Node& node);

/// KEY(name, member of Config, check, description); without `check`, every value of the type is valid.
#define KEY(path, member, ...) \
  keys::make_key<Config>(      \
      path, [](Config & config) -> auto& { return config.member; }, __VA_ARGS__)

}  // namespace vaecf::config
