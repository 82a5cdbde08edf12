#pragma once

#include <vaecf/backend/step.hpp>
#include <vaecf/comm/communicator.hpp>

#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace vaecf::comm {

/// How ranks that compute on GPUs reach each other.
struct NcclOptions {
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::ring;
  bool deterministic = false;     ///< the same bits from run to run
  bool allow_shared_gpu = false;  ///< ranks may share a GPU: for tests, timings mean nothing
  double timeout = 300.0;         ///< seconds without progress after which a wait is given up
  double grace = 0.0;             ///< seconds more, in which a Watchdog may name the rank at fault first
};

/// What a communicator needs of the device whose memory it works on: its id, a mark of the operations so far
/// in its queue, and a function that it calls while the host waits for it.
struct DeviceQueue {
  std::string id;
  std::function<backend::Completion()> mark;
  std::function<void(std::function<void()> check)> while_waiting;
};

/// Returns the queue of `device`, which outlives it.
template <class Device>
DeviceQueue queue_of(Device& device) {
  return {device.device_id(), [&device] { return device.mark(); },
          [&device](std::function<void()> check) { device.while_waiting(std::move(check)); }};
}

/// The ranks of `control`, with started forms on the memory of a CUDA device, by NCCL: in a stream of their
/// own beside compute, recordable. Everything else is `control`'s, which never sees device memory. `control`
/// and the device behind `queue` outlive the result; recordings that hold its calls end before it does. NCCL
/// reads its environment once: what the user has set there stays, what the options ask for is added. A
/// completion from wait() holds until 64 further ones are asked for.
///
/// No wait is for ever: while the host waits for the device, and for NCCL itself, NCCL's errors and the
/// timeout end the wait on this rank with a RunError, after which the connection is given up and the
/// process should end by abort().
///
/// Collective; where it throws, other ranks may wait for this one, so the process should end by abort().
/// Errors: InputError where ranks differ in NCCL's version or settings, share a GPU without leave, or this
/// program was built without CUDA; RunError where NCCL does not connect them.
std::unique_ptr<Communicator> make_nccl_communicator(Communicator& control, DeviceQueue queue,
                                                     const NcclOptions& options);

/// "NCCL 2.28.9"; empty where this program was built without it. RunError where it does not answer.
std::string nccl_library();

}  // namespace vaecf::comm
