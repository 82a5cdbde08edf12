#pragma once

#include <vaecf/comm/communicator.hpp>

namespace vaecf::comm {

/// Returns the communicator of all ranks of this test program. It is valid until all tests have run.
Communicator& mpi_world();

}  // namespace vaecf::comm
