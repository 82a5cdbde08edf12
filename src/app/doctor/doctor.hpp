#pragma once

#include <vaecf/base/enum_names.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/device/cuda_info.hpp>
#include <vaecf/device/options.hpp>
#include <vaecf/io/json.hpp>
#include <vaecf/train/engine.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::app {

/// The severity of a finding.
enum class Health { ok, warn, fail };

/// The scope of a finding: all ranks together, a host, or a rank.
enum class About { all, host, rank };

/// The result of one check.
struct Finding {
  std::string subject;  ///< "memory", "binding", ...
  Health health = Health::ok;
  std::string text;         ///< observation
  std::string advice = {};  ///< what to do; may be empty
  About about = About::all;
};
using Findings = std::vector<Finding>;

/// Returns a warning with `advice` if `is_wrong`, else a finding without a problem.
inline Finding warn_if(bool is_wrong, std::string subject, std::string text, std::string advice) {
  if (!is_wrong) return {std::move(subject), Health::ok, std::move(text)};
  return {std::move(subject), Health::warn, std::move(text), std::move(advice)};
}

/// Properties of this host and limits of this process, as reported by the system.
struct HostFacts {
  std::string name;
  double name_seconds = 0.0;  ///< duration of the lookup of the host name
  std::string processor;
  int cores = 0;
  std::vector<std::string> instructions;  ///< relevant extensions: "avx2", "avx512f", ...
  double cpu_limit = 0.0;                 ///< CPU limit of the container in cores; 0: none
  std::int64_t memory = 0;                ///< total memory in bytes
  std::int64_t memory_available = 0;      ///< bytes
  std::int64_t memory_limit = 0;          ///< limit of the container in bytes; 0: none
  std::int64_t shared_memory_free = -1;   ///< bytes free in /dev/shm; -1: it does not exist
  std::int64_t locked_memory = -1;        ///< bytes that this process may lock; -1: unlimited
  std::string nvidia_driver;              ///< version; empty: not loaded
  bool infiniband = false;
};

/// Queries this host, on Linux. `root` replaces / in tests, except for the sizes of mounts and the limits of
/// the process.
HostFacts look_at_host(const std::string& root = "");
/// Checks a host for `ranks` ranks on it, with GPUs or without.
Findings check_host(const HostFacts& facts, int ranks, bool gpus);

/// The placement of a rank.
struct RankPlace {
  std::string host;
  std::vector<int> cores;  ///< cores in its affinity mask, ascending
  int available = 0;       ///< number of cores in its launcher's affinity mask
  int threads = 1;
};

/// Gathers the placement of every rank on all ranks. Collective. `threads`: threads of this rank; 0: one per
/// core.
std::vector<RankPlace> gather_places(comm::Communicator& communicator, int threads);
/// Checks the distribution of ranks over hosts. `separate_worlds`: the reason if MPI did not join the ranks,
/// else empty.
Findings check_launch(const std::vector<RankPlace>& places, const std::string& separate_worlds);
/// Checks this rank's binding and threads; `wanted` as in binding_advice.
Finding check_binding(const RankPlace& place, int ranks_on_host, int wanted);
/// Warns about each host whose ranks have more threads than cores.
Findings check_oversubscription(const std::vector<RankPlace>& places);

/// Checks whether files in the folder of the dataset `path` can be locked.
Finding check_locks(const std::string& path);
/// Checks whether the dataset exists and can be opened.
Finding check_data(const std::string& path);
/// Checks whether `folder` exists or can be created, is writable, and has at least `wanted` bytes free.
Finding check_run_folder(const std::string& folder, std::int64_t wanted);
/// Lists the matrix-product library of each precision, and environment variables that restrict it.
Findings check_products(const std::string& fp32, const std::string& bf16, bool bf16_is_slower);
/// Checks the MPI library. `description`: that of the communicator; `transports`: comm::mpi_transports();
/// `hosts`: number of hosts.
Finding check_mpi(const std::string& description, const std::string& transports, int hosts, bool infiniband);

/// The input of check_gpus(): properties of CUDA and NCCL, and the configuration.
struct GpuQuestion {
  cuda::Availability availability;
  cuda::CudaInfo facts;
  std::string nccl;             ///< nccl_library()
  std::string driver;           ///< version of the NVIDIA driver; empty: not loaded
  std::string device = "auto";  ///< configured value of `device`
  int ranks_on_host = 1;
  std::string shared;  ///< shared_devices() of this host's ranks
  bool allow_shared_gpu = false;
};
/// Checks GPUs, their links, and NCCL.
Findings check_gpus(const GpuQuestion& question);

/// A throughput that the doctor measures on each rank.
struct DeviceRate {
  const char* name;
  const char* key;  ///< key in the report
  const char* unit;
  device::Precision precision;
  train::Rate rate;
};
inline constexpr std::array<DeviceRate, 3> device_rates = {
    {{"GEMM, fp32", "fp32_gflops", "GFLOP/s", device::Precision::fp32, train::Rate::gemm},
     {"GEMM, bf16", "bf16_gflops", "GFLOP/s", device::Precision::bf16, train::Rate::gemm},
     {"memory", "memory_gbytes", "GB/s", device::Precision::fp32, train::Rate::memory}}};

/// Warns if a rank computes much slower than the median. `measured`: the measurements of one device in the
/// report.
Findings check_pace(const io::Json& measured);

/// Returns the report, identical on all ranks. Collective. Its keys are:
/// - `version`, `ranks`, and `hosts` by rank;
/// - `ok`, `warn`, `fail`: the number of findings of each severity;
/// - `findings` of all ranks, grouped by subject; equal ones are merged and list their `ranks` and `hosts`;
/// - `measured`: for each kind of device, throughput by rank and all-reduce times.
/// Adds a failure if hosts have different datasets under the same name.
io::Json make_report(comm::Communicator& communicator, const std::string& version, const Findings& mine,
                     const io::Json& measured);
/// Formats the report for a terminal; `quiet`: without findings that are ok, and without measurements.
std::string to_table(const io::Json& report, bool quiet);

}  // namespace vaecf::app

namespace vaecf {

template <>
inline constexpr EnumNames<app::Health, 3> enum_names<app::Health>{
    {{app::Health::ok, "ok"}, {app::Health::warn, "warn"}, {app::Health::fail, "fail"}}};
template <>
inline constexpr EnumNames<app::About, 3> enum_names<app::About>{
    {{app::About::all, "all"}, {app::About::host, "host"}, {app::About::rank, "rank"}}};

}  // namespace vaecf
