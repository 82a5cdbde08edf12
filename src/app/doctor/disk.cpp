#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/io/locks.hpp>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "app/doctor/checks.hpp"

namespace vaecf::app {
namespace {

namespace fs = std::filesystem;

/// The folder itself, or the nearest above it that is there.
fs::path existing_part_of(const std::string& folder) {
  std::error_code none;
  fs::path path = fs::absolute(folder, none);
  while (!fs::exists(path, none) && path.has_relative_path()) path = path.parent_path();
  return path;
}

}  // namespace

Finding check_locks(const std::string& path) {
  const char* variable = std::getenv("HDF5_USE_FILE_LOCKING");
  const std::string setting = variable == nullptr ? "" : format(" (HDF5_USE_FILE_LOCKING={})", variable);
  switch (io::probe_locks(path)) {
    case io::Locks::work:
      return {"file locks", Health::ok, "work where the data are" + setting, ""};
    case io::Locks::unsupported:
      return {"file locks", Health::warn, "the file system of the data has none" + setting,
              "vaecf_dist reads without them, but h5py and others may refuse to open the file: "
              "HDF5_USE_FILE_LOCKING=FALSE in their environment"};
    case io::Locks::held:
      return {"file locks", Health::warn, format("another program has {} open for writing", path),
              "let it finish first: what is read meanwhile may be half-written"};
    case io::Locks::unknown:
      break;
  }
  return {"file locks", Health::ok, format("not tried: the folder of {} cannot be opened", path), ""};
}

Finding check_data(const std::string& path) {
  try {
    const io::DatasetFile file(path);
    return {"data", Health::ok,
            format("{}: {} train users, {} items (fingerprint {})", path, file.rows("train"), file.items(),
                   file.fingerprint()),
            ""};
  } catch (const Error& error) {
    return {"data", Health::fail, error.what(),
            "make it by vaecf_dist prepare, and have it on the same path on all hosts"};
  }
}

Finding check_run_folder(const std::string& folder, std::int64_t wanted) {
  const fs::path there = existing_part_of(folder);
  std::error_code error;
  const auto free = static_cast<double>(fs::space(there, error).available);
  if (error || !fs::is_directory(there) || access(there.c_str(), W_OK | X_OK) != 0) {
    return {"run folder", Health::fail, format("{} cannot be written", there.string()),
            "set run.directory to a folder that can be written"};
  }
  constexpr double gib = 1073741824.0;
  const auto needed = static_cast<double>(wanted);
  return warn_if(free < needed, "run folder", format("{}: {:.1f} GiB free", folder, free / gib),
                 format("checkpoints of such a run take {:.1f} GiB: free some, lower run.keep, or set "
                        "run.directory to another disk",
                        needed / gib));
}

}  // namespace vaecf::app
