#include "device/cuda/device.hpp"
#include "support/cuda_emulator/communicator.hpp"
#include "support/run_on_ranks.hpp"

namespace vaecf::training {

const bool on_emulator = true;

void run_on_ranks(int ranks, const device::BackendOptions& options,
                  const std::function<void(const Context&)>& body) {
  const auto run = [&](comm::Communicator& communicator) {
    cuda::Device device(options, 0);
    Log log;
    Progress progress;
    body({communicator, device, log, progress});
  };
  comm::run_ranks(ranks, run, cuda::emulator::thread_device());
}

}  // namespace vaecf::training
