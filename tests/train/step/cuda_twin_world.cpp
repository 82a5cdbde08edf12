#include "train/step/world.hpp"

#include <vaecf/device/cuda/device.hpp>

#include "support/cuda_twin/communicator.hpp"
#include "train/engine/engine_of.hpp"

namespace vaecf::train {

void run_world(int ranks, const device::BackendOptions& options,
               const std::function<void(const RunContext&)>& body) {
  const auto run = [&](comm::Communicator& communicator) {
    EngineOf<cuda::Device> engine(std::make_unique<cuda::Device>(options, 0));
    Log log;
    Progress progress;
    body({communicator, engine, log, progress});
  };
  comm::run_ranks(ranks, run, cuda::twin::thread_device());
}

}  // namespace vaecf::train
