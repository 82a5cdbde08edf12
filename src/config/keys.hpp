#pragma once

#include <vaecf/config/config.hpp>

#include "config/value.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace vaecf::config {

/// One key of the configuration: the single place that says its name, type, meaning and limits.
struct Key {
  std::string path;   ///< dotted: "train.batch_size"
  std::string doc;    ///< what it means, one line
  std::string wants;  ///< its type: "an integer"
  std::string rule;   ///< its limits: "at least 1", "one of a, b"; empty: none
  /// Throws WrongType or OutOfRange; leaves the configuration alone then.
  std::function<void(Config&, const YAML::Node&)> read;
  std::function<std::string(const Config&)> write;
};

/// All keys, in the order of dump and reference; keys of a section stand together.
std::vector<Key> all_keys();

/// The three spellings of the annealing time, of which a configuration holds exactly one.
bool is_annealing_time(std::string_view path);

}  // namespace vaecf::config
