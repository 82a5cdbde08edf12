#pragma once

#include <vaecf/device/cuda_info.hpp>
#include <vaecf/device/options.hpp>
#include <vaecf/io/json.hpp>
#include <vaecf/run/all_reduce_benchmark.hpp>
#include <vaecf/training/item_slice_plan.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "app/doctor/check_result.hpp"

namespace vaecf::app {

/// Checks whether files in the folder of the dataset `path` can be locked.
CheckResult check_locks(const std::string& path);
/// Checks whether the dataset exists and can be opened.
CheckResult check_data(const std::string& path);
/// Checks whether `folder` exists or can be created, is writable, and has at least `wanted` bytes free.
CheckResult check_run_folder(const std::string& folder, std::int64_t wanted);
/// Lists the matrix-product library of each precision, and environment variables that restrict it.
CheckResults check_gemm(const std::string& fp32, const std::string& bf16, bool bf16_is_slower);
/// Checks the MPI library. `description`: that of the communicator; `transports`: comm::mpi_transports();
/// `hosts`: number of hosts.
CheckResult check_mpi(const std::string& description, const std::string& transports, int hosts,
                      bool infiniband);

/// The input of check_gpus(): properties of CUDA and NCCL, and the configuration.
struct GpuCheckInput {
  cuda::Availability availability;
  cuda::CudaInfo facts;
  std::string nccl;    ///< nccl_library()
  std::string driver;  ///< version of the NVIDIA driver; empty: not loaded
  device::DeviceChoice device = device::DeviceChoice::automatic;  ///< configured value of `device`
  int ranks_on_host = 1;
  std::string shared;  ///< shared_devices() of this host's ranks
  bool allow_shared_gpu = false;
};
/// Checks GPUs, their links, and NCCL.
CheckResults check_gpus(const GpuCheckInput& question);

/// A throughput that the doctor measures on each rank.
struct DeviceRate {
  const char* name;
  const char* key;  ///< key in the report
  const char* unit;
  device::Precision precision;
  device::Rate rate;
};
inline constexpr std::array<DeviceRate, 3> device_rates = {
    {{"GEMM, fp32", "fp32_gflops", "GFLOP/s", device::Precision::fp32, device::Rate::gemm},
     {"GEMM, bf16", "bf16_gflops", "GFLOP/s", device::Precision::bf16, device::Rate::gemm},
     {"memory", "memory_gbytes", "GB/s", device::Precision::fp32, device::Rate::memory}}};

/// Compares the communication of a step with and without item slices. `times`: measured all-reduces between
/// all ranks, by ascending size, at least one. Without a size large enough, states that it is not measured.
CheckResult check_item_slices(const training::ItemSliceProblem& problem,
                              std::span<const run::AllReduceTiming> times);

/// Warns if a measured rank computes much slower than the median. `measured`: the measurements of one device
/// in the report.
CheckResults check_stragglers(const io::Json& measured);

}  // namespace vaecf::app
