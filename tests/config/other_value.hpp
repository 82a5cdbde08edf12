#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "config/keys.hpp"

namespace vaecf::config {

/// Returns a valid value of `key`, as YAML, that is not the default. Throws std::logic_error if none is
/// found.
inline std::string other_value(const Key& key) {
  std::vector<std::string> candidates = {"true", "false", "7", "0.75", "null", "other", "last", "[7]"};
  candidates.insert(candidates.end(), {"[hit@7, ndcg@100]", "[popularity]", "[0.2, 0.7, 0.1]", "[0.2, 0.7]",
                                       "[2015-01-01, 2016-01-01]"});
  const std::string list = "one of ";
  if (key.rule.starts_with(list))
    candidates = YAML::Load("[" + key.rule.substr(list.size()) + "]").as<std::vector<std::string>>();
  for (const std::string& candidate : candidates) {
    Config config;
    try {
      key.read(config, YAML::Load(candidate));
    } catch (const keys::WrongType&) {
      continue;
    } catch (const keys::OutOfRange&) {
      continue;
    }
    if (key.write(config) != key.write(Config{})) return candidate;
  }
  throw std::logic_error("no candidate is another value of " + key.path);
}

}  // namespace vaecf::config
