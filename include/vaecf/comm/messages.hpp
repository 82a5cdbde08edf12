#pragma once

#include <vaecf/comm/communicator.hpp>

#include <cstddef>
#include <memory>
#include <span>

namespace vaecf::comm {

/// A message to rank `peer`, in host memory.
struct SendBuffer {
  int peer = 0;
  std::span<const std::byte> bytes;
};
/// The host memory that receives a message from rank `peer`.
struct RecvBuffer {
  int peer = 0;
  std::span<std::byte> bytes;
};

/// Point-to-point messages between the ranks of a Communicator, for one thread at a time. The functions are
/// not collective: only the sender and the receiver call them. Messages between two ranks arrive in the order
/// of sending, and each must be received with its exact length. Empty messages are not sent. The functions
/// throw RunError if an MPI call fails.
class Messages {
 public:
  virtual ~Messages() = default;

  /// Sends and receives all given messages concurrently. Blocks until all of them have completed.
  virtual void send_recv(std::span<const SendBuffer> sends, std::span<const RecvBuffer> recvs) = 0;
  /// Blocks until a message to this rank has arrived, and returns its sender. Does not receive the message.
  virtual int probe_any() = 0;
};

/// Returns the Messages of `communicator`, which must outlive them. This is `communicator` itself if it
/// implements Messages, as the thread communicator of the tests does. Otherwise it is an MPI implementation
/// over a separate MPI communicator, with messages shorter than 2 GiB. Collective.
std::shared_ptr<Messages> messages_of(Communicator& communicator);

}  // namespace vaecf::comm
