#pragma once

#include <vaecf/base/enum_names.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/device/cuda_facts.hpp>
#include <vaecf/device/options.hpp>
#include <vaecf/io/json.hpp>
#include <vaecf/train/engine.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::app {

enum class Health { ok, warn, fail };

/// The subject of a finding: all ranks together, a host, or a rank.
enum class About { all, host, rank };

/// One thing that the doctor looked at.
struct Finding {
  std::string subject;  ///< "memory", "binding", ...
  Health health = Health::ok;
  std::string text;         ///< what was found
  std::string advice = {};  ///< what to do about it; may be empty
  About about = About::all;
};
using Findings = std::vector<Finding>;

/// Returns a warning with `advice` if something `is_wrong`, else that all is well.
inline Finding warn_if(bool is_wrong, std::string subject, std::string text, std::string advice) {
  if (!is_wrong) return {std::move(subject), Health::ok, std::move(text)};
  return {std::move(subject), Health::warn, std::move(text), std::move(advice)};
}

/// The facts that the system gives about this host and the limits of this process.
struct HostFacts {
  std::string name;
  double name_seconds = 0.0;  ///< that it took to look the name up
  std::string processor;
  int cores = 0;
  std::vector<std::string> instructions;  ///< of those that matter here: "avx2", "avx512f", ...
  double cpu_limit = 0.0;                 ///< cores' worth of time that a container may use; 0: no limit
  std::int64_t memory = 0;                ///< bytes
  std::int64_t memory_available = 0;
  std::int64_t memory_limit = 0;         ///< of a container; 0: none
  std::int64_t shared_memory_free = -1;  ///< in /dev/shm; -1: there is none
  std::int64_t locked_memory = -1;       ///< that this process may lock; -1: any amount
  std::string nvidia_driver;             ///< its version, if one is loaded
  bool infiniband = false;
};

/// Linux. `root` stands for / in tests; sizes of mounts and limits of the process are the real ones.
HostFacts look_at_host(const std::string& root = "");
/// Returns what a host's facts mean for `ranks` ranks on it, with GPUs or without.
Findings check_host(const HostFacts& facts, int ranks, bool gpus);

/// The host and the cores of a rank.
struct RankPlace {
  std::string host;
  std::vector<int> cores;  ///< that it may use, ascending
  int available = 0;       ///< cores that its launcher may use
  int threads = 1;
};

/// Returns the place of every rank, on all ranks. `threads` of this rank; 0: one for each core. Collective.
std::vector<RankPlace> gather_places(comm::Communicator& communicator, int threads);
/// Checks how ranks are spread over hosts, if MPI joined them: `separate_worlds` says why it did not.
Findings check_launch(const std::vector<RankPlace>& places, const std::string& separate_worlds);
/// Checks this rank's binding and threads; `wanted` as in binding_advice.
Finding check_binding(const RankPlace& place, int ranks_on_host, int wanted);
/// Warns of each host whose threads outnumber the cores that its ranks may use together.
Findings check_oversubscription(const std::vector<RankPlace>& places);

/// Checks whether HDF5 can lock files in the folder of the dataset `path`.
Finding check_locks(const std::string& path);
/// Checks whether the dataset is there and opens.
Finding check_data(const std::string& path);
/// Checks whether `folder` can be made or written and has at least `wanted` bytes left.
Finding check_run_folder(const std::string& folder, std::int64_t wanted);
/// Names the libraries of products in each precision, and settings of the environment that touch them.
Findings check_products(const std::string& fp32, const std::string& bf16, bool bf16_is_slower);
/// `description` is the communicator's; `transports` are mpi_transports().
Finding check_mpi(const std::string& description, const std::string& transports, int hosts, bool infiniband);

/// The facts about CUDA, NCCL and the configuration that check_gpus judges.
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

/// A rate of a device that the doctor measures on each rank.
struct DeviceRate {
  const char* name;
  const char* key;  ///< in the report
  const char* unit;
  device::Precision precision;
  train::Rate rate;
};
inline constexpr std::array<DeviceRate, 3> device_rates = {
    {{"products, fp32", "fp32_gflops", "GFLOP/s", device::Precision::fp32, train::Rate::products},
     {"products, bf16", "bf16_gflops", "GFLOP/s", device::Precision::bf16, train::Rate::products},
     {"memory", "memory_gbytes", "GB/s", device::Precision::fp32, train::Rate::memory}}};

/// Warns if some rank computes much slower than most. `measured` is a device of the report.
Findings check_pace(const io::Json& measured);

/// Returns the report, which is the same on all ranks: `version`, `ranks`, `hosts` by rank, the numbers of
/// findings that are `ok`, `warn` and `fail`, `findings` of all ranks, equal ones made one with the `ranks`
/// and `hosts` that made it, in the order in which subjects were first met, and `measured`: for each kind of
/// device, the rates by rank and the times of sums over ranks. Hosts that see different datasets under one
/// name are a failure. Collective.
io::Json make_report(comm::Communicator& communicator, const std::string& version, const Findings& mine,
                     const io::Json& measured);
/// The report for a terminal; `quiet` leaves out what is fine, and the measurements.
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
