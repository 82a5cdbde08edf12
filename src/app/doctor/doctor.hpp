#pragma once

#include <vaecf/config/config.hpp>

#include "app/doctor/report.hpp"

#include <optional>
#include <string>

namespace vaecf::app {

/// What the doctor looks at.
struct DoctorOrder {
  config::Config config;
  bool has_config = false;  ///< else there is no dataset to look for, and folders are the current one
  bool quick = false;       ///< nothing is measured
  std::string version;
  /// Why MPI did not join processes that a launcher started together; empty: it did, or there were none.
  std::string separate_worlds;
};

/// Looks at everything, on all ranks of `communicator`; all get the same report. Whatever fails for one
/// reason or another is a finding, except what breaks the communicator itself. Collective.
DoctorReport examine(const DoctorOrder& order, comm::Communicator& communicator);

}  // namespace vaecf::app
