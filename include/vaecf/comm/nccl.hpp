#pragma once

#include <vaecf/comm/communicator.hpp>

#include <memory>
#include <string>

namespace vaecf::comm {

/// How ranks that compute on GPUs reach each other.
struct NcclOptions {
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::ring;
  bool deterministic = false;     ///< the same bits from run to run
  bool allow_shared_gpu = false;  ///< ranks may share a GPU: for tests, timings mean nothing
  double timeout = 300.0;         ///< seconds in which NCCL has to connect the ranks, and to part from them
};

/// The ranks of `control`, with started forms on the memory of a CUDA device, by NCCL: in a stream of their
/// own beside compute, recordable. Everything else is `control`'s, which never sees device memory. `control`
/// and the device outlive the result; recordings that hold its calls end before it does. NCCL reads its
/// environment once: what the user has set there stays, what the options ask for is added. A completion from
/// wait() holds until 64 further ones are asked for.
///
/// A Watchdog on `control` polls NCCL's errors, and ends the run if the ranks no longer move.
///
/// Collective; where it throws, other ranks may wait for this one, so the process should end by abort().
/// Errors: InputError where ranks differ in NCCL's version or settings, share a GPU without leave, or this
/// program was built without CUDA; RunError where NCCL does not connect them.
std::unique_ptr<Communicator> make_nccl_communicator(Communicator& control, const std::string& device_id,
                                                     const NcclOptions& options);

/// "NCCL 2.28.9"; empty where this program was built without it. RunError where it does not answer.
std::string nccl_library();

}  // namespace vaecf::comm
