#include "launcher.hpp"
#include "mpi_check.hpp"
#include "mpi_session.hpp"
#include "reduction_queue.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/comm/communicator.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>

namespace vaecf::comm {
namespace {

MPI_Datatype mpi_type(ElementType type) {
  switch (type) {
    case ElementType::byte:
      return MPI_UINT8_T;
    case ElementType::int64:
      return MPI_INT64_T;
    case ElementType::float32:
      return MPI_FLOAT;
    case ElementType::float64:
      return MPI_DOUBLE;
  }
  throw std::logic_error("unknown element type");
}

MPI_Op mpi_operation(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return MPI_SUM;
    case Reduction::max:
      return MPI_MAX;
    case Reduction::min:
      return MPI_MIN;
  }
  throw std::logic_error("unknown reduction");
}

/// A communicator of our own, freed unless MPI's peers may be gone.
class OwnComm {
 public:
  explicit OwnComm(const MpiSession& session) : session_(session) {}
  ~OwnComm() {
    if (comm != MPI_COMM_NULL && session_.healthy()) MPI_Comm_free(&comm);
  }
  OwnComm(const OwnComm&) = delete;
  OwnComm& operator=(const OwnComm&) = delete;

  MPI_Comm comm = MPI_COMM_NULL;

 private:
  const MpiSession& session_;
};

/// `elements` in a row, the next such row starting `stride` elements further: one piece of every rank's part.
class Strided {
 public:
  Strided(MPI_Datatype element, std::int64_t elements, std::int64_t stride) {
    MPI_Aint lower = 0;
    MPI_Aint bytes = 0;
    check_mpi(MPI_Type_get_extent(element, &lower, &bytes), "MPI_Type_get_extent");
    MPI_Datatype row = MPI_DATATYPE_NULL;
    check_mpi(MPI_Type_contiguous(static_cast<int>(elements), element, &row), "MPI_Type_contiguous");
    const int resized = MPI_Type_create_resized(row, 0, static_cast<MPI_Aint>(stride) * bytes, &type);
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

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(const std::string& algorithm, std::int64_t piece_elements)
      : piece_(piece_elements), session_(algorithm), blocking_(session_), started_(session_) {
    if (piece_ < 1 || piece_ > largest_mpi_piece) {
      throw std::invalid_argument(vaecf::format("MPI messages of {} elements are not possible", piece_));
    }
    check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
    refuse_separate_worlds();
    algorithm_ = MpiSession::choose_all_reduce(algorithm);
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &blocking_.comm), "MPI_Comm_dup");
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &started_.comm), "MPI_Comm_dup");
    find_neighbours();
    queue_ = std::make_unique<ReductionQueue>(started_.comm, piece_);
  }

  ~MpiCommunicator() override {
    if (!session_.healthy()) queue_->abandon();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_size() const override { return local_size_; }
  int local_rank() const override { return local_rank_; }
  std::string host() const override { return host_; }
  std::string description() const override {
    return vaecf::format("{}, {} {} on {} {} ({}), {}", MpiSession::library(), size_,
                         size_ == 1 ? "rank" : "ranks", hosts_, hosts_ == 1 ? "host" : "hosts",
                         session_.thread_level(), algorithm_);
  }

  void barrier() override {
    call([&] { check_mpi(MPI_Barrier(blocking_.comm), "MPI_Barrier"); });
  }

  void broadcast_bytes(std::span<std::byte> bytes, int root) override {
    call([&] {
      for (std::size_t begin = 0; begin < bytes.size(); begin += static_cast<std::size_t>(piece_)) {
        const auto piece = std::min(static_cast<std::size_t>(piece_), bytes.size() - begin);
        check_mpi(MPI_Bcast(bytes.data() + begin, static_cast<int>(piece), MPI_BYTE, root, blocking_.comm),
                  "MPI_Bcast");
      }
    });
  }

  void all_reduce_raw(void* values, std::int64_t count, ElementType type, Reduction reduction) override {
    call([&] {
      all_reduce_pieces(values, count, mpi_type(type), mpi_operation(reduction), piece_, blocking_.comm);
    });
  }

  void all_gather_bytes(std::span<const std::byte> part, std::span<std::byte> all) override {
    check_parts(all.size(), part.size(), "all_gather");
    const auto count = static_cast<std::int64_t>(part.size());
    call([&] {
      for (std::int64_t begin = 0; begin < count; begin += piece_) {
        const std::int64_t piece = std::min(piece_, count - begin);
        const Strided row(MPI_BYTE, piece, count);
        check_mpi(MPI_Allgather(part.data() + begin, static_cast<int>(piece), MPI_BYTE, all.data() + begin, 1,
                                row.type, blocking_.comm),
                  "MPI_Allgather");
      }
    });
  }

  /// All-to-all and a local sum in rank order: MPI_Reduce_scatter_block takes three times as long on one
  /// host.
  void reduce_scatter_sum(std::span<const float> values, std::span<float> part) override {
    check_parts(values.size(), part.size(), "reduce_scatter_sum");
    constexpr std::int64_t few_mib_a_rank = std::int64_t{1} << 20;
    const auto count = static_cast<std::int64_t>(part.size());
    const std::int64_t largest = std::min({piece_, few_mib_a_rank, count});
    std::vector<float> received(static_cast<std::size_t>(largest * size_));
    call([&] {
      for (std::int64_t begin = 0; begin < count; begin += largest) {
        const std::int64_t piece = std::min(largest, count - begin);
        const Strided row(MPI_FLOAT, piece, count);
        check_mpi(MPI_Alltoall(values.data() + begin, 1, row.type, received.data(), static_cast<int>(piece),
                               MPI_FLOAT, blocking_.comm),
                  "MPI_Alltoall");
        float* sum = part.data() + begin;
        std::copy_n(received.data(), piece, sum);
        for (std::int64_t r = 1; r < size_; ++r) {
          const float* other = received.data() + r * piece;
          for (std::int64_t i = 0; i < piece; ++i) sum[i] += other[i];
        }
      }
    });
  }

  Ticket start_all_reduce_sum(std::span<float> values) override {
    if (session_.threads()) return {queue_->push(values)};
    all_reduce(values);
    return {done_at_start_++};
  }

  void wait(Ticket ticket) override {
    if (session_.threads()) {
      call([&] { queue_->wait(ticket.number); });
    } else if (ticket.number < 0 || ticket.number >= done_at_start_) {
      throw std::logic_error(vaecf::format("wait: ticket {} was never started", ticket.number));
    }
  }

  [[noreturn]] void abort(int code) override {
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }

 private:
  /// After a failed call no other rank can be counted on, whoever catches the error.
  template <class F>
  void call(F&& f) {
    try {
      f();
    } catch (const RunError&) {
      session_.give_up();
      throw;
    }
  }

  void check_parts(std::size_t all, std::size_t part, const char* name) const {
    if (all != part * static_cast<std::size_t>(size_)) {
      throw std::logic_error(vaecf::format("{}: {} elements are not {} parts of {}", name, all, size_, part));
    }
  }

  void refuse_separate_worlds() const {
    const int started = launcher_size().value_or(1);
    if (size_ > 1 || started <= 1) return;
    throw InputError(
        vaecf::format("a launcher started {} processes, but MPI joins none of them: each would be a world of "
                      "its own and train "
                      "alone. The launcher speaks another protocol than this program's MPI library ({}). "
                      "Use srun --mpi=pmix, or that library's own mpirun",
                      started, MpiSession::library()));
  }

  void find_neighbours() {
    std::array<char, MPI_MAX_PROCESSOR_NAME + 1> name{};
    int length = 0;
    check_mpi(MPI_Get_processor_name(name.data(), &length), "MPI_Get_processor_name");
    host_.assign(name.data(), static_cast<std::size_t>(length));
    OwnComm node(session_);
    check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node.comm),
              "MPI_Comm_split_type");
    check_mpi(MPI_Comm_rank(node.comm, &local_rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(node.comm, &local_size_), "MPI_Comm_size");
    hosts_ = all_reduce(std::int64_t{local_rank_ == 0 ? 1 : 0});
  }

  // Destroyed in reverse order: the queue's thread ends before its communicator, all communicators before
  // MPI.
  std::int64_t piece_;
  MpiSession session_;
  std::string algorithm_;
  OwnComm blocking_;
  OwnComm started_;
  std::unique_ptr<ReductionQueue> queue_;
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  std::int64_t hosts_ = 1;
  std::string host_;
  std::int64_t done_at_start_ = 0;  // tickets, where threads may not call MPI
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(const std::string& algorithm,
                                                    std::int64_t piece_elements) {
  return std::make_unique<MpiCommunicator>(algorithm, piece_elements);
}

}  // namespace vaecf::comm
