#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/messages.hpp>

#include <stdexcept>

// Replaces the functions of MPI in a library without it, which has a single rank.
namespace vaecf::comm {

std::shared_ptr<Messages> messages_of(Communicator& /*communicator*/) {
  throw std::logic_error("messages_of: there are no messages between ranks without MPI");
}

}  // namespace vaecf::comm
