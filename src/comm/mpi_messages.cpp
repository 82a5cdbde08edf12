#include "mpi_messages.hpp"

#include <vaecf/base/format.hpp>

#include <algorithm>

#include "mpi_check.hpp"

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

}  // namespace

void MpiMessages::exchange(std::span<const Outgoing> out, std::span<const Incoming> in) {
  requests_.clear();
  lengths_.clear();
  // Receives first: what comes then has its place, and is copied once.
  for (const Incoming& message : in) {
    cut(message.bytes.size(), piece_, [&](std::int64_t begin, int length) {
      lengths_.push_back(length);
      check_mpi(MPI_Irecv(message.bytes.data() + begin, length, MPI_BYTE, message.from, message_tag,
                          communicator_, &requests_.emplace_back()),
                "MPI_Irecv");
    });
  }
  for (const Outgoing& message : out) {
    cut(message.bytes.size(), piece_, [&](std::int64_t begin, int length) {
      check_mpi(MPI_Isend(message.bytes.data() + begin, length, MPI_BYTE, message.to, message_tag,
                          communicator_, &requests_.emplace_back()),
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

int MpiMessages::await() {
  MPI_Status status;
  check_mpi(MPI_Probe(MPI_ANY_SOURCE, message_tag, communicator_, &status), "MPI_Probe");
  return status.MPI_SOURCE;
}

}  // namespace vaecf::comm
