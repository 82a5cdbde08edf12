#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/data/prepare_options.hpp>
#include <vaecf/data/prepare_report.hpp>
#include <vaecf/data/source_options.hpp>

#include <string>

namespace vaecf::data {

/// The flags of the command `prepare`.
struct PrepareFlags {
  bool strict = false;   ///< malformed lines are errors instead of being counted and reported
  bool force = false;    ///< make the dataset again even if it is up to date
  bool replace = false;  ///< overwrite any file, not only an intact dataset of this program
};

/// Reads raw ratings and writes an HDF5 dataset called `name` to `output` atomically. A dataset that was made
/// from the same source with the same options is left unchanged. Random choices use Philox, or NumPy's
/// generator for `liang2018`; docs/SPLITS.md describes all steps and splits. Throws InputError with file and
/// line if the source cannot be read, or if `output` may not be replaced; throws RunError if the disk is full
/// or not writable.
PrepareReport prepare(const SourceOptions& source, const PrepareOptions& options, const std::string& name,
                      const std::string& output, const PrepareFlags& flags, Log& log, Progress& progress);

}  // namespace vaecf::data
