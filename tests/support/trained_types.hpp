#pragma once

#include <vaecf/models/models.hpp>

#include <vector>

namespace vaecf::testing {

/// Returns the types of all models that are trained in steps.
inline std::vector<models::ModelType> trained_types() {
  std::vector<models::ModelType> types;
  for (const auto& [type, name] : enum_names<models::ModelType>)
    if (!models::is_solved(type)) types.push_back(type);
  return types;
}

}  // namespace vaecf::testing
