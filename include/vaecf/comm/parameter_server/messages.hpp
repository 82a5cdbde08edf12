#pragma once

#include <vaecf/comm/communicator.hpp>

#include <cstddef>
#include <memory>
#include <span>

namespace vaecf::comm {

/// A message to another rank or the place for one from it, in host memory.
struct SendBuffer {
  int peer = 0;
  std::span<const std::byte> bytes;
};
struct RecvBuffer {
  int peer = 0;
  std::span<std::byte> bytes;
};

/// Point-to-point messages between the ranks of a Communicator, for one thread at a time. They are not
/// collective: only the sender and the receiver call. Messages between two ranks arrive in the order in which
/// they were sent, and each must be received with its own length; an empty message is not sent. Throws
/// RunError if a call fails.
class Messages {
 public:
  virtual ~Messages() = default;

  /// Sends and receives all of these at the same time, and waits for all.
  virtual void send_recv(std::span<const SendBuffer> sends, std::span<const RecvBuffer> recvs) = 0;
  /// Waits for a message to this rank and returns the rank that sent it. The message is still to be received.
  virtual int probe_any() = 0;
};

/// Returns the messages between the ranks of `communicator`, which must outlive them: `communicator` itself
/// if it is a Messages too (as the ranks of tests, which are threads, are), else MPI messages over a
/// communicator of their own, each shorter than 2 GiB. Collective.
std::shared_ptr<Messages> messages_of(Communicator& communicator);

}  // namespace vaecf::comm
