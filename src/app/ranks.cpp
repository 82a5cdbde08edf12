#include "app/ranks.hpp"

#include <cstdlib>

#include "app/device_map.hpp"
#include "app/thread_binding.hpp"

namespace vaecf::app {

std::unique_ptr<comm::Communicator> make_communicator(const comm::DistributedOptions& options) {
  if (!comm::launched_by_mpi()) return comm::make_self_communicator();
  return comm::make_mpi_communicator(options.algorithm, comm::largest_mpi_piece, options.loading_timeout);
}

int wanted_threads(const config::Config& config) {
  const char* variable = std::getenv("OMP_NUM_THREADS");
  return config.backend.threads > 0 || variable == nullptr ? config.backend.threads : std::atoi(variable);
}

backend::BackendOptions options_for_rank(const config::Config& config, const comm::Communicator& ranks) {
  backend::BackendOptions options = at_rank(config.backend, ranks);
  if (wanted_threads(config) == 0) options.threads = fair_threads(look_at_cores(), ranks.local_size());
  return options;
}

}  // namespace vaecf::app
