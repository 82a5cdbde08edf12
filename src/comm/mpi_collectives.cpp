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

bool Posted::arrived() {
  int all = 0;
  check_mpi(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &all, MPI_STATUSES_IGNORE),
            "MPI_Testall");
  return all != 0;
}

void Posted::wait() {
  check_mpi(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE),
            "MPI_Waitall");
  requests.clear();
  if (finish) finish();
}

/// The elements of `values` that can be shared out evenly.
template <class T>
std::span<T> even(std::span<T> values, int ranks) {
  return values.first(values.size() / static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks));
}
template <class T>
std::span<T> part_of(std::span<T> all, int rank, int ranks) {
  const std::size_t share = all.size() / static_cast<std::size_t>(ranks);
  return all.subspan(share * static_cast<std::size_t>(rank), share);
}

template <class T>
void MpiCollectives::all_reduce_sum(std::span<T> values) {
  const auto shared = even(values, size_);
  reduce_scatter_sum(std::span<const T>(shared), part_of(shared, rank_, size_));
  finish_all_reduce(values);
}

template <class T>
void MpiCollectives::post_all_reduce_sum(std::span<T> values, Posted& to) {
  const auto shared = even(values, size_);
  post_reduce_scatter_sum(std::span<const T>(shared), part_of(shared, rank_, size_), to);
  to.finish = [this, values, sum = std::move(to.finish)] {
    sum();
    finish_all_reduce(values);
  };
}

/// The sums of all parts to all ranks. Fewer elements than there are ranks are left: every rank adds up all
/// of them.
template <class T>
void MpiCollectives::finish_all_reduce(std::span<T> values) {
  const auto shared = even(values, size_);
  all_gather(std::as_bytes(part_of(shared, rank_, size_)), std::as_writable_bytes(shared));
  const auto rest = values.subspan(shared.size());
  std::vector<T> all(rest.size() * static_cast<std::size_t>(size_));
  all_gather(std::as_bytes(rest), std::as_writable_bytes(std::span(all)));
  std::vector<const T*> terms;
  for (int r = 0; r < size_; ++r) terms.push_back(part_of(std::span(all), r, size_).data());
  sum_terms(terms, static_cast<std::int64_t>(rest.size()), rest.data());
}

/// All parts to their owners, then a sum there: MPI_Reduce_scatter_block takes three times as long on one
/// host.
template <class T>
std::vector<const T*> MpiCollectives::post_parts(std::span<const T> values, std::int64_t part_size,
                                                 Range range, T* received,
                                                 std::vector<MPI_Request>& requests) {
  constexpr int tag = 0;
  const auto bytes = static_cast<int>(range.size() * static_cast<std::int64_t>(sizeof(T)));
  std::vector<const T*> terms(static_cast<std::size_t>(size_));
  terms[static_cast<std::size_t>(rank_)] = values.data() + rank_ * part_size + range.begin;
  for (int k = 1; k < size_; ++k, received += range.size()) {
    const int from = (rank_ - k + size_) % size_;
    terms[static_cast<std::size_t>(from)] = received;
    check_mpi(MPI_Irecv(received, bytes, MPI_BYTE, from, tag, communicator_, &requests.emplace_back()),
              "MPI_Irecv");
  }
  for (int k = 1; k < size_; ++k) {
    const int to = (rank_ + k) % size_;
    check_mpi(MPI_Isend(values.data() + to * part_size + range.begin, bytes, MPI_BYTE, to, tag, communicator_,
                        &requests.emplace_back()),
              "MPI_Isend");
  }
  return terms;
}

template <class T>
void MpiCollectives::reduce_scatter_sum(std::span<const T> values, std::span<T> part) {
  constexpr std::int64_t few_mib_a_rank = std::int64_t{1} << 20;
  const auto count = static_cast<std::int64_t>(part.size());
  const std::int64_t largest = std::min({piece_, few_mib_a_rank, count});
  std::vector<std::byte>& memory = blocking_.received;
  memory.resize(std::max(memory.size(), static_cast<std::size_t>(largest * (size_ - 1)) * sizeof(T)));
  for (std::int64_t begin = 0; begin < count; begin += largest) {
    const Range range{begin, std::min(begin + largest, count)};
    const auto terms =
        post_parts(values, count, range, reinterpret_cast<T*>(memory.data()), blocking_.requests);
    blocking_.wait();
    sum_terms(std::span(terms), range.size(), part.data() + begin);
  }
}

template <class T>
void MpiCollectives::post_reduce_scatter_sum(std::span<const T> values, std::span<T> part, Posted& to) {
  const auto count = static_cast<std::int64_t>(part.size());
  to.received.resize(part.size() * static_cast<std::size_t>(size_ - 1) * sizeof(T));
  auto* received = reinterpret_cast<T*>(to.received.data());
  std::vector<std::function<void()>> sums;
  for (std::int64_t begin = 0; begin < count; begin += piece_) {
    const Range range{begin, std::min(begin + piece_, count)};
    sums.emplace_back([terms = post_parts(values, count, range, received, to.requests), range, part] {
      sum_terms(std::span(terms), range.size(), part.data() + range.begin);
    });
    received += range.size() * (size_ - 1);
  }
  to.finish = [sums = std::move(sums)] {
    for (const auto& sum : sums) sum();
  };
}

void MpiCollectives::all_gather(std::span<const std::byte> part, std::span<std::byte> all) {
  for_pieces(part, all, [&](const void* from, int count, void* to, MPI_Datatype row) {
    check_mpi(MPI_Allgather(from, count, MPI_BYTE, to, 1, row, communicator_), "MPI_Allgather");
  });
}

void MpiCollectives::post_all_gather(std::span<const std::byte> part, std::span<std::byte> all, Posted& to) {
  for_pieces(part, all, [&](const void* from, int count, void* out, MPI_Datatype row) {
    check_mpi(MPI_Iallgather(from, count, MPI_BYTE, out, 1, row, communicator_, &to.requests.emplace_back()),
              "MPI_Iallgather");
  });
}

/// Calls gather(from, bytes, to, type) for each piece of the part; `type` is a piece of every rank's part.
template <class Gather>
void MpiCollectives::for_pieces(std::span<const std::byte> part, std::span<std::byte> all, Gather&& gather) {
  const auto count = static_cast<std::int64_t>(part.size());
  const bool in_place = part.data() == all.data() + rank_ * count;
  for (std::int64_t begin = 0; begin < count; begin += piece_) {
    const std::int64_t piece = std::min(piece_, count - begin);
    const Strided row(piece, count);
    gather(in_place ? MPI_IN_PLACE : part.data() + begin, in_place ? 0 : static_cast<int>(piece),
           all.data() + begin, row.type);
  }
}

template void MpiCollectives::all_reduce_sum(std::span<Bf16>);
template void MpiCollectives::reduce_scatter_sum(std::span<const float>, std::span<float>);
template void MpiCollectives::reduce_scatter_sum(std::span<const Bf16>, std::span<Bf16>);
template void MpiCollectives::post_all_reduce_sum(std::span<float>, Posted&);
template void MpiCollectives::post_all_reduce_sum(std::span<Bf16>, Posted&);
template void MpiCollectives::post_reduce_scatter_sum(std::span<const float>, std::span<float>, Posted&);
template void MpiCollectives::post_reduce_scatter_sum(std::span<const Bf16>, std::span<Bf16>, Posted&);

}  // namespace vaecf::comm
