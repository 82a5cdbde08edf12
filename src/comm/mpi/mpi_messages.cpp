#include <vaecf/comm/communicator.hpp>

#include <vector>

#include "comm/mpi/mpi_session.hpp"

namespace vaecf::comm {
namespace {

constexpr int message_tag = 0;

class MpiMessages final : public Messages {
 public:
  explicit MpiMessages(Communicator& communicator) : activity_(communicator.activity()), own_(session_) {
    activity_.enter_collective();
    const Activity::Wait wait(activity_);
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &own_.comm), "MPI_Comm_dup");
  }

  void send_recv(std::span<const SendBuffer> sends, std::span<const RecvBuffer> recvs) override {
    const Activity::Wait wait(activity_, "messages");
    requests_.clear();
    // Receives are posted first, so that messages arrive in their final buffers without an extra copy.
    // max_bucket_mib keeps the size of every message within an int.
    for (const RecvBuffer& recv : recvs) {
      if (recv.bytes.empty()) continue;
      check_mpi(MPI_Irecv(recv.bytes.data(), static_cast<int>(recv.bytes.size()), MPI_BYTE, recv.peer,
                          message_tag, own_.comm, &requests_.emplace_back()),
                "MPI_Irecv");
    }
    for (const SendBuffer& send : sends) {
      if (send.bytes.empty()) continue;
      check_mpi(MPI_Isend(send.bytes.data(), static_cast<int>(send.bytes.size()), MPI_BYTE, send.peer,
                          message_tag, own_.comm, &requests_.emplace_back()),
                "MPI_Isend");
    }
    check_mpi(MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE),
              "MPI_Waitall");
  }

  int probe_any() override {
    const Activity::Wait wait(activity_, "await message");
    MPI_Status status;
    check_mpi(MPI_Probe(MPI_ANY_SOURCE, message_tag, own_.comm, &status), "MPI_Probe");
    return status.MPI_SOURCE;
  }

 private:
  Activity& activity_;
  MpiSession session_;
  ScopedComm own_;
  std::vector<MPI_Request> requests_;  // kept between calls for their memory
};

}  // namespace

std::shared_ptr<Messages> messages_of(Communicator& communicator) {
  if (auto* own = dynamic_cast<Messages*>(&communicator)) return {std::shared_ptr<void>(), own};
  return std::make_shared<MpiMessages>(communicator);
}

}  // namespace vaecf::comm
