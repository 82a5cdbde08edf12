#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::io {

/// The files of the dataset that `path` names, for reading: `path` itself where it is there; where it is a
/// pattern (`data/ml20m-*-of-*.h5`) what matches it, in order of names; where `data/ml20m.h5` is not there,
/// but `data/ml20m-00000-of-00004.h5` and the like are, those. Just `path` where there is nothing: whoever
/// opens it says so.
std::vector<std::string> dataset_paths(const std::string& path);

/// The files that a dataset written to `path` has: `data/ml20m.h5` itself for one file; for several, and for
/// a pattern such as `data/ml20m-*-of-*.h5` or `data/ml20m-*.h5`, `data/ml20m-00000-of-00004.h5` and so on.
/// InputError for a pattern that does not fit such names, and for a number of files that cannot be.
std::vector<std::string> new_dataset_paths(const std::string& path, std::int64_t files);

/// Files that are there and make up the dataset `path` as it was before `new_paths`, and that are not among
/// them: those of another number of files, and `path` itself.
std::vector<std::string> replaced_dataset_paths(const std::string& path,
                                                const std::vector<std::string>& new_paths);

}  // namespace vaecf::io
