#include "train/world.hpp"

#include "backend/cpu/make_cpu_backend.hpp"
#include "support/thread_communicator.hpp"

namespace vaecf::train {

void run_world(int ranks, const backend::BackendOptions& options,
               const std::function<void(const Services&)>& body) {
  comm::run_ranks(ranks, [&](comm::Communicator& communicator) {
    const auto backend = cpu::make_cpu_backend(options);
    Log log;
    Progress progress;
    body({communicator, *backend, log, progress});
  });
}

}  // namespace vaecf::train
