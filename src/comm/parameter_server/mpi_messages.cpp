#include "comm/mpi_check.hpp"
#include "comm/mpi_session.hpp"

#include <mpi.h>
#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/comm/parameter_server/messages.hpp>

#include <algorithm>
#include <vector>

namespace vaecf::comm {
namespace {

constexpr int message_tag = 0;

/// Calls `work(begin, length)` for each piece.
template <class Work>
void cut(std::size_t bytes, std::int64_t piece, Work work) {
  const auto count = static_cast<std::int64_t>(bytes);
  for (std::int64_t begin = 0; begin < count; begin += piece) {
    work(begin, static_cast<int>(std::min(piece, count - begin)));
  }
}

class MpiMessages final : public Messages {
 public:
  MpiMessages(Communicator& communicator, std::int64_t piece_bytes)
      : activity_(communicator.activity()), piece_(piece_bytes) {
    activity_.enter_collective();
    const Activity::Wait wait(activity_);
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
  }
  ~MpiMessages() override {
    if (session_.healthy()) MPI_Comm_free(&comm_);
  }
  MpiMessages(const MpiMessages&) = delete;
  MpiMessages& operator=(const MpiMessages&) = delete;

  int probe_any() override {
    const Activity::Wait wait(activity_, "await message");
    MPI_Status status;
    check_mpi(MPI_Probe(MPI_ANY_SOURCE, message_tag, comm_, &status), "MPI_Probe");
    return status.MPI_SOURCE;
  }

 private:
  void transfer(std::span<const SendBuffer> sends, std::span<const RecvBuffer> recvs) override;

  Activity& activity_;
  std::int64_t piece_;
  MpiSession session_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  // Kept between calls for their memory.
  std::vector<MPI_Request> requests_;
  std::vector<MPI_Status> statuses_;
  std::vector<int> lengths_;
};

void MpiMessages::transfer(std::span<const SendBuffer> sends, std::span<const RecvBuffer> recvs) {
  const Activity::Wait wait(activity_, "messages");
  requests_.clear();
  lengths_.clear();
  // Receives first: what comes then has its place, and is copied once.
  for (const RecvBuffer& recv : recvs) {
    cut(recv.bytes.size(), piece_, [&](std::int64_t begin, int length) {
      lengths_.push_back(length);
      check_mpi(MPI_Irecv(recv.bytes.data() + begin, length, MPI_BYTE, recv.peer, message_tag, comm_,
                          &requests_.emplace_back()),
                "MPI_Irecv");
    });
  }
  for (const SendBuffer& send : sends) {
    cut(send.bytes.size(), piece_, [&](std::int64_t begin, int length) {
      check_mpi(MPI_Isend(send.bytes.data() + begin, length, MPI_BYTE, send.peer, message_tag, comm_,
                          &requests_.emplace_back()),
                "MPI_Isend");
    });
  }
  statuses_.resize(requests_.size());
  check_mpi(MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), statuses_.data()),
            "MPI_Waitall");
  for (std::size_t i = 0; i < lengths_.size(); ++i) {
    int received = 0;
    check_mpi(MPI_Get_count(&statuses_[i], MPI_BYTE, &received), "MPI_Get_count");
    if (received == lengths_[i]) continue;
    throw RunError(
        vaecf::format("a message of {} bytes came from rank {} where {} were due: the ranks are no "
                      "longer in step",
                      received, statuses_[i].MPI_SOURCE, lengths_[i]));
  }
}

}  // namespace

std::shared_ptr<Messages> messages_of(Communicator& communicator, std::int64_t piece_bytes) {
  if (auto* own = dynamic_cast<Messages*>(&communicator)) return {std::shared_ptr<void>(), own};
  return std::make_shared<MpiMessages>(communicator, piece_bytes);
}

}  // namespace vaecf::comm
