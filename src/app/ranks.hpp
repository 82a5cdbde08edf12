#pragma once

#include <vaecf/backend/options.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/config/config.hpp>

#include <memory>

namespace vaecf::app {

/// Over MPI where a launcher started this process, else a world of one. InputError, RunError.
std::unique_ptr<comm::Communicator> make_communicator(const comm::DistributedOptions& options);

/// The number of threads that the user fixed, by the configuration or OpenMP's own variable; 0: none.
int wanted_threads(const config::Config& config);

/// For this rank's place on its host. Without a number from the user, ranks that share a host's cores share
/// them out.
backend::BackendOptions options_for_rank(const config::Config& config, const comm::Communicator& ranks);

}  // namespace vaecf::app
