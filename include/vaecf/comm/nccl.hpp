#pragma once

#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/distributed_options.hpp>

#include <memory>
#include <string>

namespace vaecf::comm {

/// The configuration of NCCL communication.
struct NcclOptions {
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::automatic;
  bool deterministic = false;     ///< results must be bitwise identical from run to run
  bool allow_shared_gpu = false;  ///< ranks may share a GPU; for tests only, timings are meaningless
  double timeout = 300.0;         ///< limit for connecting and for disconnecting the ranks, in seconds
};

/// Makes a communicator of the ranks of `control` whose non-blocking collectives use NCCL on the memory of a
/// CUDA device. They run in a separate stream and can be captured in CUDA graphs. All other calls are
/// forwarded to `control`, which never accesses device memory. Collective.
///
/// `control` and the device must outlive the result; graphs that contain its collectives must be destroyed
/// before it. NCCL reads its environment once; variables that the user has set are kept, those that `options`
/// require are added. An event returned by wait() is valid until wait() was called 64 more times. A Watchdog
/// on `control` polls NCCL for errors, and aborts the run if the ranks make no progress.
///
/// Throws InputError if the ranks' NCCL versions or settings differ, if ranks share a GPU without
/// `allow_shared_gpu`, or if the program was built without CUDA. Throws RunError if NCCL does not connect the
/// ranks. After an exception other ranks may already be blocked on this one, so the caller should abort().
std::unique_ptr<Communicator> make_nccl_communicator(Communicator& control, const std::string& device_id,
                                                     const NcclOptions& options);

/// Returns the name and version of the library, such as "NCCL 2.28.9", or an empty string if the program was
/// built without it. Throws RunError if the version query fails.
std::string nccl_library();

/// The settings that determine NCCL's environment variables.
struct NcclSettings {
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::automatic;
  bool deterministic = false;
  bool shared_gpu = false;  ///< some ranks share a GPU
  int version = 0;          ///< version of the library as returned by ncclGetVersion
  int rank = 0;
};

/// Sets the NCCL environment variables that `settings` require, except those that the user has set.
void set_nccl_environment(const NcclSettings& settings);

/// Negotiates the NCCL settings between the ranks of `control`, and sets the environment. `device_id`
/// identifies this rank's GPU; `version` is its NCCL version. Collective. Throws InputError on all ranks if
/// two ranks share a GPU without `allow_shared_gpu`. Also throws it if NCCL versions or the variables that
/// select the algorithm differ, which would cause a deadlock.
NcclSettings negotiate_nccl_settings(Communicator& control, const NcclOptions& options,
                                     const std::string& device_id, int version);

/// Describes the algorithm that results from `settings` and the environment, for the log: "ring", "algorithm
/// chosen by NCCL", ...
std::string describe_nccl_algorithm(const NcclSettings& settings);

/// Formats an NCCL version: 22809 is "2.28.9".
std::string nccl_version_string(int version);

}  // namespace vaecf::comm
