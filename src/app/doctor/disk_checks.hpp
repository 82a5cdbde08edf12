#pragma once

#include "app/doctor/finding.hpp"

#include <cstdint>
#include <string>

namespace vaecf::app {

/// Whether HDF5 can lock files where the dataset `path` is, or would be.
Finding check_locks(const std::string& path);

/// Whether the dataset is there and opens.
Finding check_data(const std::string& path);
/// A failure where hosts see different datasets under one name, by what check_data found on each.
std::vector<Finding> check_same_data(const std::vector<SharedFinding>& findings);

/// Whether `folder` can be made or written, with room for `wanted` bytes at least.
Finding check_run_folder(const std::string& folder, std::int64_t wanted);

}  // namespace vaecf::app
