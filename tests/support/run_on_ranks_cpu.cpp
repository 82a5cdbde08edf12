#include "device/cpu/device.hpp"
#include "support/run_on_ranks.hpp"
#include "support/thread_communicator.hpp"

namespace vaecf::training {

const bool on_emulator = false;

void run_on_ranks(int ranks, const device::BackendOptions& options,
                  const std::function<void(const Context&)>& body) {
  comm::run_ranks(ranks, [&](comm::Communicator& communicator) {
    const auto device = cpu::make_device(options);
    Log log;
    Progress progress;
    body({communicator, *device, log, progress});
  });
}

}  // namespace vaecf::training
