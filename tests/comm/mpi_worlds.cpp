#include "comm/worlds.hpp"
#include "support/mpi_main.hpp"

#include <gtest/gtest.h>

namespace vaecf::comm {

void on_worlds(const std::function<void(Communicator&)>& body) {
  {
    SCOPED_TRACE("whole messages");
    body(mpi_world());
  }
  SCOPED_TRACE("cut messages");
  body(*make_mpi_communicator("ring", test_piece));
}

}  // namespace vaecf::comm
