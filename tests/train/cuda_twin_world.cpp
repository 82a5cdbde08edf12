#include "train/world.hpp"

#include <vaecf/backend/cuda/device.hpp>

#include "support/cuda_twin/communicator.hpp"
#include "support/thread_communicator.hpp"
#include "train/engine/engine_of.hpp"

namespace vaecf::train {

void run_world(int ranks, const backend::BackendOptions& options,
               const std::function<void(const Services&)>& body) {
  comm::run_ranks(ranks, [&](comm::Communicator& host) {
    EngineOf<cuda::Device> engine(std::make_unique<cuda::Device>(options, 0));
    cuda::twin::TwinCommunicator communicator(host);
    Log log;
    Progress progress;
    body({communicator, engine, log, progress});
  });
}

}  // namespace vaecf::train
