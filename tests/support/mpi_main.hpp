#pragma once

#include <vaecf/comm/communicator.hpp>

namespace vaecf::comm {

/// The ranks that mpirun gave a test program; lives as long as its tests.
Communicator& mpi_world();

}  // namespace vaecf::comm
