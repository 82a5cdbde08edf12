#pragma once

#include <vaecf/backend/backend.hpp>
#include <vaecf/comm/communicator.hpp>

#include <memory>
#include <string>

namespace vaecf::comm {

/// How ranks that compute on GPUs reach each other.
struct NcclOptions {
  std::string algorithm = "ring";  ///< ring | auto, as in DistributedOptions
  bool deterministic = false;      ///< the same bits from run to run
  bool allow_shared_gpu = false;   ///< ranks may share a GPU: for tests, timings mean nothing
  double timeout = 300.0;          ///< seconds without progress after which a wait is given up
  double grace = 0.0;              ///< seconds more, in which a Watchdog may name the rank at fault first
};

/// The ranks of `control`, with started forms on the memory of `backend`, a CUDA backend, by NCCL: in a
/// stream of their own beside compute, recordable. Everything else is `control`'s, which never sees device
/// memory. Both outlive the result; recordings that hold its calls end before it does. NCCL reads its
/// environment once: what the user has set there stays, what the options ask for is added. A completion from
/// wait() holds until 64 further ones are asked for.
///
/// No wait is for ever: while the host waits for the backend, and for NCCL itself, NCCL's errors and the
/// timeout end the wait on this rank with a RunError, after which the connection is given up and the
/// process should end by abort().
///
/// Collective; where it throws, other ranks may wait for this one, so the process should end by abort().
/// Errors: InputError where ranks differ in NCCL's version or settings, share a GPU without leave, or this
/// program was built without CUDA; RunError where NCCL does not connect them.
std::unique_ptr<Communicator> make_nccl_communicator(Communicator& control, backend::Backend& backend,
                                                     const NcclOptions& options);

/// "NCCL 2.28.9"; empty where this program was built without it. RunError where it does not answer.
std::string nccl_library();

}  // namespace vaecf::comm
