#pragma once

#include <vaecf/base/enum_names.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/device/cuda_info.hpp>
#include <vaecf/device/options.hpp>
#include <vaecf/io/json.hpp>
#include <vaecf/run/train.hpp>
#include <vaecf/training/item_slice_plan.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace vaecf::app {

/// The severity of a finding.
enum class Severity { ok, warn, fail };

/// The scope of a finding: all ranks together, a host, or a rank.
enum class Scope { all, host, rank };

/// The result of one check.
struct CheckResult {
  std::string subject;  ///< "memory", "binding", ...
  Severity severity = Severity::ok;
  std::string text;         ///< observation
  std::string advice = {};  ///< suggested fix; may be empty
  Scope scope = Scope::all;
};
using CheckResults = std::vector<CheckResult>;

/// Returns a warning with `advice` if `is_wrong`, else a finding without a problem.
inline CheckResult warn_if(bool is_wrong, std::string subject, std::string text, std::string advice) {
  if (!is_wrong) return {std::move(subject), Severity::ok, std::move(text)};
  return {std::move(subject), Severity::warn, std::move(text), std::move(advice)};
}

/// Properties of this host and limits of this process, as reported by the system.
struct HostInfo {
  std::string name;
  double name_lookup_seconds = 0.0;  ///< duration of the lookup of the host name
  std::string processor;
  int cores = 0;
  std::vector<std::string> instructions;  ///< relevant extensions: "avx2", "avx512f", ...
  double cpu_limit = 0.0;                 ///< CPU limit of the container or job in cores; 0: none
  std::int64_t memory = 0;                ///< total memory in bytes
  std::int64_t memory_available = 0;      ///< bytes, within the limits of the container or job
  std::int64_t memory_limit = 0;          ///< limit of the container or job in bytes; 0: none
  std::int64_t shared_memory_free = -1;   ///< bytes free in /dev/shm; -1: it does not exist
  std::int64_t locked_memory = -1;        ///< bytes that this process may lock; -1: unlimited
  std::int64_t processes = -1;            ///< this user's processes and threads at most; -1: unlimited
  std::string nvidia_driver;              ///< version; empty: not loaded
  bool infiniband = false;
};

/// Queries this host, on Linux. `root` replaces / in tests, except for the sizes of mounts and the limits of
/// the process.
HostInfo query_host_info(const std::string& root = "");
/// Checks a host for `ranks` ranks on it, with GPUs or without.
CheckResults check_host(const HostInfo& facts, int ranks, bool gpus);

/// The placement of a rank.
struct RankPlacement {
  std::string host;
  std::vector<int> cores;  ///< cores in its affinity mask, ascending
  int available = 0;       ///< number of cores in its launcher's affinity mask
  int threads = 1;
  double cpu_limit = 0.0;  ///< CPU limit of its cgroups in cores; 0: none
};

/// Gathers the placement of every rank on all ranks. Collective. `threads`: threads of this rank; 0: one per
/// core.
std::vector<RankPlacement> gather_placements(comm::Communicator& communicator, int threads);
/// Checks the distribution of ranks over hosts. `separate_worlds`: the reason if MPI did not join the ranks,
/// else empty.
CheckResults check_launch(const std::vector<RankPlacement>& placements, const std::string& separate_worlds);
/// Checks this rank's binding and threads; `wanted` as in binding_advice.
CheckResult check_binding(const RankPlacement& placement, int ranks_on_host, int wanted);
/// Warns about each host whose ranks have more threads than cores, or than their CPU limit allows.
CheckResults check_oversubscription(const std::vector<RankPlacement>& placements);

/// The mpirun that started this process, if it runs on this host.
struct Launcher {
  std::vector<std::string> command = {};      ///< its command line; empty: none on this host
  std::vector<std::string> environment = {};  ///< its variables: "NAME=VALUE"
  std::string folder = {};                    ///< its working directory
  /// The program of this mpirun, or of its daemon on this host; empty if it is unknown, or another container
  /// has other files.
  std::string program = {};
};
/// Searches the ancestors of this process for an mpirun or its daemon. `root` replaces / in tests.
Launcher query_launcher(const std::string& root = "");

/// The hosts that the user requested for the ranks.
struct RequestedHosts {
  std::string source = {};                ///< the hostfile, option or variable that lists them
  std::map<std::string, int> slots = {};  ///< ranks per host; 0: the list states no number
  std::string ignored = {};               ///< the reason if Open MPI does not read this list; else empty
};
/// Returns the hosts in the command line of the launcher, in Open MPI's variables for a default hostfile, or
/// in Slurm's allocation; none if there is no list, or it cannot be read.
RequestedHosts query_requested_hosts(const Launcher& launcher);
/// Warns if the ranks run on fewer hosts than requested, and more of them on a host than it has slots, or the
/// list states no slots.
CheckResults check_requested_hosts(const std::vector<RankPlacement>& placements,
                                   const RequestedHosts& requested);
/// Warns if Open MPI's mpirun and the loaded library are of different major versions or installations; Open
/// MPI 4 and 5 have libraries of the same name. Returns nothing under other launchers, or if either is
/// unknown.
CheckResults check_mpirun(const Launcher& launcher, const comm::MpiLibrary& library);
/// Runs check_oversubscription() and, on rank 0, check_requested_hosts(). Collective. `threads` as in
/// gather_placements().
CheckResults check_placement(comm::Communicator& communicator, int threads);

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

/// Returns the report, identical on all ranks. Collective. Its keys are:
/// - `version`, `ranks`, and `hosts` by rank;
/// - `ok`, `warn`, `fail`: the number of findings of each severity;
/// - `findings` of all ranks, grouped by subject; equal ones are merged and list their `ranks` and `hosts`;
/// - `measured`: for each kind of device, throughput by rank and all-reduce times.
/// Adds a failure if hosts have different datasets under the same name.
io::Json make_report(comm::Communicator& communicator, const std::string& version, const CheckResults& mine,
                     const io::Json& measured);
/// Adds the findings of the report `later` to `report`, and replaces its measurements.
void add_report(io::Json& report, const io::Json& later);
/// Formats the findings for a terminal; `quiet`: without those that are ok.
std::string findings_table(const io::Json& report, bool quiet);
/// Formats the measurements, unless `quiet`, and the number of findings of each severity.
std::string summary_table(const io::Json& report, bool quiet);

}  // namespace vaecf::app

namespace vaecf {

template <>
inline constexpr EnumNames<app::Severity, 3> enum_names<app::Severity>{
    {{app::Severity::ok, "ok"}, {app::Severity::warn, "warn"}, {app::Severity::fail, "fail"}}};
template <>
inline constexpr EnumNames<app::Scope, 3> enum_names<app::Scope>{
    {{app::Scope::all, "all"}, {app::Scope::host, "host"}, {app::Scope::rank, "rank"}}};

}  // namespace vaecf
