#pragma once

#include <mpi.h>

namespace vaecf::comm {

/// Throws RunError naming `call` and MPI's own sentence unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* call);

}  // namespace vaecf::comm
