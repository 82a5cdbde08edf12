#pragma once

#include <vaecf/backend/options.hpp>
#include <vaecf/comm/all_reduce_probe.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/train/engine.hpp>

#include "app/doctor/finding.hpp"

#include <array>
#include <string>
#include <vector>

namespace vaecf::app {

/// A finding with all ranks that made it: rank 0 those about all, one rank of each host those about the host.
struct SharedFinding {
  Finding finding;
  std::vector<int> ranks;  ///< ascending
};

/// What all ranks found, equal findings made one, in the order in which subjects were first met. The same on
/// all ranks. Collective.
std::vector<SharedFinding> gather_findings(comm::Communicator& communicator, const Findings& mine);

/// A failure if hosts see different datasets under one name, by what check_data found on each.
Findings check_same_data(const std::vector<SharedFinding>& findings);

/// What the doctor measures of a device on each rank.
struct DeviceRate {
  const char* name;
  const char* key;  ///< in JSON
  const char* unit;
  backend::Precision precision;
  train::Rate rate;
};
inline constexpr std::array<DeviceRate, 3> device_rates = {
    {{"products, fp32", "fp32_gflops", "GFLOP/s", backend::Precision::fp32, train::Rate::products},
     {"products, bf16", "bf16_gflops", "GFLOP/s", backend::Precision::bf16, train::Rate::products},
     {"memory", "memory_gbytes", "GB/s", backend::Precision::fp32, train::Rate::memory}}};

/// One kind of device, as all ranks measured it at the same time.
struct DeviceMeasurements {
  std::string device;                                          ///< "cpu" or "cuda"
  std::array<std::vector<double>, device_rates.size()> rates;  ///< by rank; 0: not measured
  std::vector<comm::AllReduceTime> all_reduce;                 ///< empty for one rank
};

/// A warning if some rank computes much slower than most.
Findings check_pace(const DeviceMeasurements& measured);

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
