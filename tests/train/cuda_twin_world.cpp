#include "train/world.hpp"

#include "support/cuda_twin/communicator.hpp"
#include "support/thread_communicator.hpp"

#include "backend/cuda/cuda_backend.hpp"

namespace vaecf::train {

void run_world(int ranks, const backend::BackendOptions& options,
               const std::function<void(const Services&)>& body) {
  comm::run_ranks(ranks, [&](comm::Communicator& host) {
    cuda::CudaBackend backend(options, 0);
    cuda::twin::TwinCommunicator communicator(host);
    Log log;
    Progress progress;
    body({communicator, backend, log, progress});
  });
}

}  // namespace vaecf::train
