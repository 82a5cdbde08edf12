#include "mpi_collectives.hpp"

#include <algorithm>

#include "mpi_check.hpp"
#include "part_sum.hpp"

namespace vaecf::comm {
namespace {

/// `bytes` in a row, the next such row starting `stride` bytes further: one piece of every rank's part.
class Strided {
 public:
  Strided(std::int64_t bytes, std::int64_t stride) {
    MPI_Datatype row = MPI_DATATYPE_NULL;
    check_mpi(MPI_Type_contiguous(static_cast<int>(bytes), MPI_BYTE, &row), "MPI_Type_contiguous");
    const int resized = MPI_Type_create_resized(row, 0, static_cast<MPI_Aint>(stride), &type);
    MPI_Type_free(&row);
    check_mpi(resized, "MPI_Type_create_resized");
    check_mpi(MPI_Type_commit(&type), "MPI_Type_commit");
  }
  ~Strided() {
    if (type != MPI_DATATYPE_NULL) MPI_Type_free(&type);
  }
  Strided(const Strided&) = delete;
  Strided& operator=(const Strided&) = delete;

  MPI_Datatype type = MPI_DATATYPE_NULL;
};

}  // namespace

MpiCollectives::MpiCollectives(MPI_Comm communicator, std::int64_t piece_elements)
    : communicator_(communicator), piece_(piece_elements) {
  check_mpi(MPI_Comm_rank(communicator, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(communicator, &size_), "MPI_Comm_size");
}

void MpiCollectives::barrier() {
  check_mpi(MPI_Barrier(communicator_), "MPI_Barrier");
}

void MpiCollectives::broadcast(std::span<std::byte> bytes, int root) {
  const auto count = static_cast<std::int64_t>(bytes.size());
  for (std::int64_t begin = 0; begin < count; begin += piece_) {
    const auto piece = static_cast<int>(std::min(piece_, count - begin));
    check_mpi(MPI_Bcast(bytes.data() + begin, piece, MPI_BYTE, root, communicator_), "MPI_Bcast");
  }
}

void MpiCollectives::all_reduce(void* values, std::int64_t count, MPI_Datatype type, MPI_Op operation) {
  MPI_Aint lower = 0;
  MPI_Aint bytes = 0;
  check_mpi(MPI_Type_get_extent(type, &lower, &bytes), "MPI_Type_get_extent");
  for (std::int64_t begin = 0; begin < count; begin += piece_) {
    const auto piece = static_cast<int>(std::min(piece_, count - begin));
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, static_cast<char*>(values) + begin * bytes, piece, type, operation,
                            communicator_),
              "MPI_Allreduce");
  }
}

void MpiCollectives::all_reduce_sum(std::span<Bf16> values) {
  const auto ranks = static_cast<std::size_t>(size_);
  const std::size_t share = values.size() / ranks;
  const auto even = values.first(share * ranks);
  const auto mine = even.subspan(share * static_cast<std::size_t>(rank_), share);
  reduce_scatter_sum(even, mine);
  all_gather(std::as_bytes(mine), std::as_writable_bytes(even));

  // Fewer than there are ranks are left: everybody adds all of them up.
  const auto rest = values.subspan(even.size());
  std::vector<Bf16> all(rest.size() * ranks);
  all_gather(std::as_bytes(rest), std::as_writable_bytes(std::span(all)));
  std::vector<const Bf16*> terms;
  for (std::size_t r = 0; r < ranks; ++r) terms.push_back(all.data() + r * rest.size());
  sum_terms(terms, static_cast<std::int64_t>(rest.size()), rest.data());
}

void MpiCollectives::reduce_scatter_sum(std::span<const float> values, std::span<float> part) {
  reduce_scatter<float>(values, part, received_);
}

void MpiCollectives::reduce_scatter_sum(std::span<const Bf16> values, std::span<Bf16> part) {
  reduce_scatter<Bf16>(values, part, received_narrow_);
}

/// All parts to their owners, then a sum there: MPI_Reduce_scatter_block takes three times as long on one
/// host.
template <class T>
void MpiCollectives::reduce_scatter(std::span<const T> values, std::span<T> part, std::vector<T>& received) {
  constexpr std::int64_t few_mib_a_rank = std::int64_t{1} << 20;
  constexpr int tag = 0;
  const auto count = static_cast<std::int64_t>(part.size());
  const std::int64_t largest = std::min({piece_, few_mib_a_rank, count});
  received.resize(std::max(received.size(), static_cast<std::size_t>(largest * (size_ - 1))));
  std::vector<const T*> terms(static_cast<std::size_t>(size_));
  std::vector<MPI_Request> requests;
  for (std::int64_t begin = 0; begin < count; begin += largest) {
    const std::int64_t piece = std::min(largest, count - begin);
    const auto bytes = static_cast<int>(piece * static_cast<std::int64_t>(sizeof(T)));
    requests.clear();
    terms[static_cast<std::size_t>(rank_)] = values.data() + rank_ * count + begin;
    T* place = received.data();
    for (int k = 1; k < size_; ++k, place += piece) {
      const int from = (rank_ - k + size_) % size_;
      terms[static_cast<std::size_t>(from)] = place;
      check_mpi(MPI_Irecv(place, bytes, MPI_BYTE, from, tag, communicator_, &requests.emplace_back()),
                "MPI_Irecv");
    }
    for (int k = 1; k < size_; ++k) {
      const int to = (rank_ + k) % size_;
      check_mpi(MPI_Isend(values.data() + to * count + begin, bytes, MPI_BYTE, to, tag, communicator_,
                          &requests.emplace_back()),
                "MPI_Isend");
    }
    check_mpi(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE),
              "MPI_Waitall");
    sum_terms(terms, piece, part.data() + begin);
  }
}

void MpiCollectives::all_gather(std::span<const std::byte> part, std::span<std::byte> all) {
  const auto count = static_cast<std::int64_t>(part.size());
  const bool in_place = part.data() == all.data() + rank_ * count;
  for (std::int64_t begin = 0; begin < count; begin += piece_) {
    const std::int64_t piece = std::min(piece_, count - begin);
    const Strided row(piece, count);
    check_mpi(
        MPI_Allgather(in_place ? MPI_IN_PLACE : part.data() + begin, in_place ? 0 : static_cast<int>(piece),
                      MPI_BYTE, all.data() + begin, 1, row.type, communicator_),
        "MPI_Allgather");
  }
}

}  // namespace vaecf::comm
