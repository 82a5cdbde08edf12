#pragma once

#include <vaecf/config/config.hpp>

#include "config/value.hpp"

#include <functional>
#include <string>
#include <vector>

namespace vaecf::config {

/// One key of the configuration: the single place that says its name, type, meaning and limits.
struct Key {
  std::string path;   ///< dotted: "train.batch_size"
  std::string doc;    ///< what it means, one line
  std::string wants;  ///< its type: "an integer"
  std::string rule;   ///< its limits: "at least 1", "one of a, b"; empty: none
  /// The amount's section, where it is one of several ways to give one: "run.checkpoint_every." Of these a
  /// layer gives one at most, and it replaces what the layer below gave.
  std::string one_of_section;
  bool stands_for_section = false;           ///< a plain value given to that section is this key's
  std::function<void(Config&)> clear;        ///< of one_of_section: sets the amount to 0, which is none
  std::function<bool(const Config&)> given;  ///< of one_of_section: whether it is another
  /// Throws WrongType or OutOfRange; leaves the configuration alone then.
  std::function<void(Config&, const YAML::Node&)> read;
  std::function<std::string(const Config&)> write;
};

/// All keys, in the order of dump and reference; keys of a section stand together.
std::vector<Key> all_keys();

}  // namespace vaecf::config
