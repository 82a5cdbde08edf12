#include "mpi_check.hpp"
#include "mpi_collectives.hpp"
#include "mpi_session.hpp"
#include "watch/deadline.hpp"
#include "watch/launcher_end.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/base/host.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/launcher.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>

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

/// Who this process is and what it waited for; MPI cannot be asked yet.
std::string not_joined(double seconds) {
  return vaecf::format(
      "rank {} on {} has waited {:g} s in setup (distributed.loading_timeout), but MPI has not joined the "
      "ranks: see whether all of them were started, and whether their hosts reach each other",
      launcher_rank().value_or(0), host_name(), seconds);
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

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(const DistributedOptions& options, std::int64_t piece_elements)
      : joining_(std::make_unique<Deadline>(options.loading_timeout, not_joined(options.loading_timeout))),
        piece_(piece_elements),
        overlaps_(options.overlap == Toggle::on),
        comm_(session_) {
    if (piece_ < 1 || piece_ > largest_mpi_piece) {
      throw std::invalid_argument(vaecf::format("MPI messages of {} elements are not possible", piece_));
    }
    check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
    refuse_separate_worlds();
    algorithm_ = MpiSession::choose_all_reduce(options.algorithm);
    if (overlaps_) algorithm_ += ", but gradients are summed by their owners (distributed.overlap: on)";
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm_.comm), "MPI_Comm_dup");
    mpi_ = std::make_unique<MpiCollectives>(comm_.comm, piece_);
    find_neighbours();
    joining_.reset();
  }

  ~MpiCommunicator() override { settle(); }

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
    collective("barrier", [&] { mpi_->barrier(); });
  }

  void broadcast_bytes(std::span<std::byte> bytes, int root) override {
    collective("broadcast", [&] { mpi_->broadcast(bytes, root); });
  }

  void all_reduce_raw(void* values, std::int64_t count, ElementType type, Reduction reduction) override {
    collective("all-reduce",
               [&] { mpi_->all_reduce(values, count, mpi_type(type), mpi_operation(reduction)); });
  }

  void all_gather_bytes(std::span<const std::byte> part, std::span<std::byte> all) override {
    check_parts(all.size(), part.size(), "all_gather");
    collective("all-gather", [&] { mpi_->all_gather(part, all); });
  }

  void reduce_scatter_sum(std::span<const float> values, std::span<float> part) override {
    check_parts(values.size(), part.size(), "reduce_scatter_sum");
    collective("reduce-scatter", [&] { mpi_->reduce_scatter_sum(values, part); });
  }

  Ticket start_all_reduce_sum(std::span<float> values, backend::Completion) override {
    const auto run = [=, this] {
      mpi_->all_reduce(values.data(), static_cast<std::int64_t>(values.size()), MPI_FLOAT, MPI_SUM);
    };
    return start("all-reduce", values.size_bytes(), run,
                 [=, this](Posted& to) { mpi_->post_all_reduce_sum(values, to); });
  }
  Ticket start_all_reduce_sum(std::span<Bf16> values, backend::Completion) override {
    return start(
        "all-reduce", values.size_bytes(), [=, this] { mpi_->all_reduce_sum(values); },
        [=, this](Posted& to) { mpi_->post_all_reduce_sum(values, to); });
  }
  Ticket start_reduce_scatter_sum(std::span<const float> values, std::span<float> part,
                                  backend::Completion) override {
    return start_reduce_scatter(values, part);
  }
  Ticket start_reduce_scatter_sum(std::span<const Bf16> values, std::span<Bf16> part,
                                  backend::Completion) override {
    return start_reduce_scatter(values, part);
  }
  Ticket start_all_gather(std::span<const float> part, std::span<float> all, backend::Completion) override {
    return start_gather(std::as_bytes(part), std::as_writable_bytes(all));
  }
  Ticket start_all_gather(std::span<const Bf16> part, std::span<Bf16> all, backend::Completion) override {
    return start_gather(std::as_bytes(part), std::as_writable_bytes(all));
  }

  backend::Completion wait(Ticket ticket) override {
    const std::int64_t begun = finished_ + static_cast<std::int64_t>(started_.size());
    if (ticket.number < 0 || ticket.number >= begun) {
      throw std::logic_error(vaecf::format("wait: ticket {} was never started", ticket.number));
    }
    // In the order of starting, which is the same on all ranks.
    for (; finished_ <= ticket.number; ++finished_) {
      const Started next = std::move(started_.front());
      started_.pop_front();
      call("wait", next.finish);
    }
    return {};
  }

  void settle() noexcept override {
    const auto end = std::chrono::steady_clock::now() + time_to_settle;
    try {
      while (!started_.empty() && std::chrono::steady_clock::now() < end) {
        if (!started_.front().posted || started_.front().posted->arrived())
          started_.pop_front();
        else
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    } catch (const RunError&) {
    }
    // What other ranks may still send must find its memory: it is not given back.
    if (!started_.empty()) new std::deque<Started>(std::move(started_));
    started_.clear();
  }

  [[noreturn]] void abort(int code) override {
    const Deadline deadline(seconds_to_abort, "", code);
    std::fflush(nullptr);
    if (hosts_ > 1) end_launcher_after(seconds_to_end_launcher);
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }

 private:
  /// A blocking collective.
  template <class F>
  void collective(const char* name, F&& f) {
    activity().enter_collective();
    call(name, f);
  }
  /// Waits for others. After a failed call no other rank can be counted on, whoever catches the error.
  template <class F>
  void call(const char* name, F&& f) {
    const Activity::Wait wait(activity(), name);
    try {
      f();
    } catch (const RunError&) {
      session_.give_up();
      throw;
    }
  }

  /// A collective that was started: what is left to do when it is waited for.
  struct Started {
    std::function<void()> finish;
    std::shared_ptr<Posted> posted;  // null if it has not begun
  };

  /// MPI makes no progress by itself: without overlap, a collective runs when it is waited for. With overlap,
  /// its messages are posted now, and go on their way whenever MPI is called.
  template <class Run, class Post>
  Ticket start(const char* name, std::size_t bytes, Run run, Post post) {
    activity().enter_collective();
    const auto span = [this, name, bytes] {
      return std::make_shared<Timeline::Span>(activity().timeline(), Track::communication, name, "bytes",
                                              static_cast<std::int64_t>(bytes));
    };
    if (overlaps_) {
      const auto posted = std::make_shared<Posted>();
      call(name, [&] { post(*posted); });
      started_.push_back({[posted, span = span()] { posted->wait(); }, posted});
    } else {
      started_.push_back({[run, span] {
                            const auto whole = span();
                            run();
                          },
                          nullptr});
    }
    return {finished_ + static_cast<std::int64_t>(started_.size()) - 1};
  }
  template <class T>
  Ticket start_reduce_scatter(std::span<const T> values, std::span<T> part) {
    check_parts(values.size(), part.size(), "reduce_scatter_sum");
    return start(
        "reduce-scatter", values.size_bytes(), [=, this] { mpi_->reduce_scatter_sum(values, part); },
        [=, this](Posted& to) { mpi_->post_reduce_scatter_sum(values, part, to); });
  }
  Ticket start_gather(std::span<const std::byte> part, std::span<std::byte> all) {
    check_parts(all.size(), part.size(), "all_gather");
    return start(
        "all-gather", all.size(), [=, this] { mpi_->all_gather(part, all); },
        [=, this](Posted& to) { mpi_->post_all_gather(part, all, to); });
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

  static constexpr std::chrono::seconds time_to_settle{2};
  static constexpr double seconds_to_abort = 5.0;
  static constexpr double seconds_to_end_launcher = 10.0;

  std::unique_ptr<Deadline> joining_;
  // Destroyed in reverse order: the communicator before MPI.
  std::int64_t piece_;
  bool overlaps_;
  MpiSession session_;
  std::string algorithm_;
  OwnComm comm_;
  std::unique_ptr<MpiCollectives> mpi_;
  std::deque<Started> started_;
  std::int64_t finished_ = 0;  // tickets
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  std::int64_t hosts_ = 1;
  std::string host_;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(const DistributedOptions& options,
                                                    std::int64_t piece_elements) {
  if (const std::string advice = launch_advice(); !advice.empty()) {
    // MPI may end the first task that it cannot join to others, and srun then all of them: first, task 0 says
    // why.
    if (launcher_rank().value_or(0) == 0) {
      write_error_line("warning: " + advice);
    } else {
      std::this_thread::sleep_for(std::chrono::seconds(3));
    }
  }
  return std::make_unique<MpiCommunicator>(options, piece_elements);
}

}  // namespace vaecf::comm
