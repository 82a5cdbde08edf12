#include "app/ranks.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <cstdlib>

#include "app/device_map.hpp"
#include "app/thread_binding.hpp"

namespace vaecf::app {

std::unique_ptr<comm::Communicator> make_communicator(const comm::DistributedOptions& options) {
  if (!comm::launched_by_mpi()) return comm::make_self_communicator();
  return comm::make_mpi_communicator(options);
}

int wanted_threads(const config::Config& config) {
  const char* variable = std::getenv("OMP_NUM_THREADS");
  if (config.backend.threads > 0 || variable == nullptr) return config.backend.threads;
  const long threads = std::strtol(variable, nullptr, 10);
  if (threads > backend::most_threads) {
    throw InputError(format("OMP_NUM_THREADS is {}: give a number of threads up to {}, or backend.threads",
                            variable, backend::most_threads));
  }
  return static_cast<int>(threads);
}

backend::BackendOptions options_for_rank(const config::Config& config, const comm::Communicator& ranks) {
  backend::BackendOptions options = at_rank(config.backend, ranks);
  if (wanted_threads(config) == 0) options.threads = fair_threads(look_at_cores(), ranks.local_size());
  return options;
}

}  // namespace vaecf::app
