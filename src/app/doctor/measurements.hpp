#pragma once

#include "app/doctor/finding.hpp"

#include <vaecf/comm/all_reduce_probe.hpp>
#include <vaecf/train/rates.hpp>

#include <string>
#include <vector>

namespace vaecf::app {

/// One kind of device, as all ranks measured it at the same time.
struct DeviceMeasurements {
  std::string device;                           ///< "cpu" or "cuda"
  std::vector<train::MachineRates> ranks;       ///< without the texts; empty: not measured
  std::vector<comm::AllReduceTime> all_reduce;  ///< empty for one rank
};

/// Every rank's rates, on all ranks. Collective.
std::vector<train::MachineRates> gather_rates(comm::Communicator& communicator,
                                              const train::MachineRates& mine);

/// A warning where some rank computes much slower than most.
std::vector<Finding> check_pace(const DeviceMeasurements& measured);

}  // namespace vaecf::app
