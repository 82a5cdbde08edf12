#pragma once

#include <mpi.h>
#include <vaecf/comm/communicator.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vaecf::comm {

/// Messages from rank to rank over one MPI communicator, for one thread at a time: as Communicator says.
class MpiMessages {
 public:
  /// `communicator` outlives every call; nobody else uses it. Longer messages than `piece_bytes` are cut.
  MpiMessages(MPI_Comm communicator, std::int64_t piece_bytes)
      : communicator_(communicator), piece_(piece_bytes) {}

  void exchange(std::span<const Outgoing> out, std::span<const Incoming> in);
  int await();

 private:
  MPI_Comm communicator_;
  std::int64_t piece_;
  // Kept between calls for their memory.
  std::vector<MPI_Request> requests_;
  std::vector<MPI_Status> statuses_;
  std::vector<int> lengths_;
};

}  // namespace vaecf::comm
