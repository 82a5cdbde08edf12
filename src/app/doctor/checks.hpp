#pragma once

#include <vaecf/backend/cuda_facts.hpp>
#include <vaecf/comm/communicator.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "app/doctor/finding.hpp"

namespace vaecf::app {

/// Where a rank runs.
struct RankPlace {
  std::string host;
  std::vector<int> cores;  ///< that it may use, ascending
  int available = 0;       ///< cores that its launcher may use
  int threads = 1;
};

/// Returns the place of every rank, on all ranks. `threads` of this rank; 0: one for each core. Collective.
std::vector<RankPlace> gather_places(comm::Communicator& communicator, int threads);
/// How ranks are spread over hosts, if MPI joined them: `separate_worlds` says why it did not.
Findings check_launch(const std::vector<RankPlace>& places, const std::string& separate_worlds);
/// This rank's binding and threads; `wanted` as in binding_advice.
Finding check_binding(const RankPlace& place, int ranks_on_host, int wanted);
/// Each host whose threads outnumber the cores that its ranks may use together; one finding if there is none.
Findings check_oversubscription(const std::vector<RankPlace>& places);

/// Whether HDF5 can lock files in the folder of the dataset `path`.
Finding check_locks(const std::string& path);
/// Whether the dataset is there and opens.
Finding check_data(const std::string& path);
/// Whether `folder` can be made or written and has at least `wanted` bytes left.
Finding check_run_folder(const std::string& folder, std::int64_t wanted);

/// By what products of each precision run, and which settings of the environment touch them.
Findings check_products(const std::string& fp32, const std::string& bf16, bool bf16_is_slower);

/// `description` is the communicator's; `transports` are mpi_transports().
Finding check_mpi(const std::string& description, const std::string& transports, int hosts, bool infiniband);

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
Findings check_gpus(const GpuQuestion& question);

}  // namespace vaecf::app
