#include <gtest/gtest.h>

#include "comm/communicators.hpp"
#include "support/thread_communicator.hpp"

namespace vaecf::comm {

void for_each_communicator(const std::function<void(Communicator&)>& body) {
  {
    SCOPED_TRACE("self communicator");
    body(*make_self_communicator());
  }
  for (const int ranks : {1, 2, 3, 4}) run_ranks(ranks, body);
}

}  // namespace vaecf::comm
