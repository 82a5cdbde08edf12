#pragma once

#include <vaecf/comm/communicator.hpp>

#include <memory>
#include <string>

namespace vaecf::comm {

/// The configuration of NCCL communication.
struct NcclOptions {
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::ring;
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

}  // namespace vaecf::comm
