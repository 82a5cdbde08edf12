#pragma once

#include "app/doctor/finding.hpp"

#include <vaecf/backend/cuda_facts.hpp>
#include <vaecf/comm/mpi_facts.hpp>
#include <vaecf/train/rates.hpp>

#include <string>
#include <vector>

namespace vaecf::app {

/// By what products run, and which settings of the environment touch them.
std::vector<Finding> check_products(const train::MachineRates& rates);

/// `description` is the communicator's; `hosts` the number of hosts.
Finding check_mpi(const std::string& description, const comm::MpiTransports& transports, int hosts,
                  bool infiniband);

/// What the doctor asks CUDA and NCCL.
struct GpuQuestion {
  cuda::Availability availability;
  cuda::CudaFacts facts;
  std::string nccl;             ///< nccl_library()
  std::string driver;           ///< the NVIDIA driver's version, as the system tells; empty: none
  std::string device = "auto";  ///< as configured
  int ranks_on_host = 1;
  std::string shared;  ///< shared_devices() of this host's ranks
  bool allow_shared_gpu = false;
};
std::vector<Finding> check_gpus(const GpuQuestion& question);

}  // namespace vaecf::app
