#pragma once

#include <vaecf/keys/key.hpp>
#include <vaecf/models/kind.hpp>

#include <string>
#include <vector>

namespace vaecf::models {

/// Makes keys of the options of a model, a type of its folder, the keys model.NAME.
template <class T>
std::vector<keys::Key<ModelOptions>> own_keys(const Kind& kind, const std::vector<keys::Key<T>>& keys) {
  const std::string section = "model." + kind.name() + ".";
  std::vector<keys::Key<ModelOptions>> all;
  for (const keys::Key<T>& key : keys)
    all.push_back(keys::within<ModelOptions>(
        key, [](auto& options) -> auto& { return own_options<T>(options); }, section));
  return all;
}

}  // namespace vaecf::models
