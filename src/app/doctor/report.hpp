#pragma once

#include "app/doctor/finding.hpp"
#include "app/doctor/measurements.hpp"

#include <string>
#include <vector>

namespace vaecf::app {

/// All that the doctor found.
struct DoctorReport {
  std::string version;
  std::vector<std::string> hosts;  ///< by rank
  std::vector<SharedFinding> findings;
  std::vector<DeviceMeasurements> measured;

  int count(Health health) const;
};

/// For a terminal; `quiet` leaves out what is fine, and the measurements.
std::string to_table(const DoctorReport& report, bool quiet);
/// One JSON object.
std::string to_json(const DoctorReport& report);

}  // namespace vaecf::app
