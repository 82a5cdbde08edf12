#include <vaecf/base/error.hpp>
#include <vaecf/base/host.hpp>
#include <vaecf/comm/collective.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/launcher.hpp>
#include <vaecf/comm/mpi.hpp>
#include <vaecf/comm/ordered_sum.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "comm/mpi/mpi_session.hpp"
#include "comm/watch/exit_timer.hpp"

namespace vaecf::comm {
namespace {

/// Returns the message of a timeout in MPI_Init. The rank comes from the launcher, as MPI cannot be queried
/// yet.
std::string join_timeout_message(double seconds) {
  return format(
      "rank {} on {} has waited {:g} s in setup (watchdog.startup_timeout_seconds), but MPI has not connected the ranks; check that all ranks were started and that their hosts can reach each other",
      launcher_rank().value_or(0), host_name(), seconds);
}

class MpiCommunicator final : public Communicator {
 public:
  explicit MpiCommunicator(const DistributedOptions& options)
      : join_timer_(std::in_place, options.startup_timeout, join_timeout_message(options.startup_timeout)),
        overlaps_(options.overlap == Toggle::on),
        session_(std::make_shared<MpiSession>()),
        comm_(*session_) {
    check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
    check_ranks_joined();
    algorithm_ = MpiSession::choose_all_reduce();
    if (overlaps_)
      algorithm_ += ", but each rank sums its own part of the gradients (distributed.overlap: true)";
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm_.comm), "MPI_Comm_dup");
    query_local_ranks();
    join_timer_.reset();
  }

  /// Makes the part of `parent` of the ranks that pass the same color. Collective.
  MpiCommunicator(MpiCommunicator& parent, int color, int key)
      : Communicator(parent.activity()),
        overlaps_(parent.overlaps_),
        session_(parent.session_),
        algorithm_(parent.algorithm_),
        comm_(*session_) {
    collective("split", [&] {
      check_mpi(MPI_Comm_split(parent.comm_.comm, color, key, &comm_.comm), "MPI_Comm_split");
      check_mpi(MPI_Comm_rank(comm_.comm, &rank_), "MPI_Comm_rank");
      check_mpi(MPI_Comm_size(comm_.comm, &size_), "MPI_Comm_size");
      query_local_ranks();
    });
  }

  ~MpiCommunicator() override { quiesce(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_size() const override { return local_size_; }
  int local_rank() const override { return local_rank_; }
  std::string host() const override { return host_name(); }
  std::string description() const override {
    const char* threads = session_->threads_may_call_mpi() ? "multiple" : "below multiple";
    return format("{}, {} {} on {} {} (thread level {}), {}", MpiSession::library(), size_,
                  size_ == 1 ? "rank" : "ranks", hosts_, hosts_ == 1 ? "host" : "hosts", threads, algorithm_);
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    return std::make_unique<MpiCommunicator>(*this, color, key);
  }

  void barrier() override {
    collective("barrier", [&] { check_mpi(MPI_Barrier(comm_.comm), "MPI_Barrier"); });
  }

  void broadcast_bytes(std::span<std::byte> bytes, int root) override {
    collective("broadcast", [&] {
      constexpr std::size_t max_count = std::size_t{1} << 26;  // MPI counts in 32 bits
      for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), max_count))) {
        const auto count = static_cast<int>(std::min(bytes.size(), max_count));
        check_mpi(MPI_Bcast(bytes.data(), count, MPI_BYTE, root, comm_.comm), "MPI_Bcast");
      }
    });
  }

  void all_reduce_raw(void* values, std::int64_t count, ElementType type, Reduction reduction) override {
    const std::array<MPI_Datatype, 4> types = {MPI_UINT8_T, MPI_INT64_T, MPI_FLOAT, MPI_DOUBLE};
    const std::array<MPI_Op, 3> operations = {MPI_SUM, MPI_MAX, MPI_MIN};
    collective("all-reduce", [&] {
      check_mpi(
          MPI_Allreduce(MPI_IN_PLACE, values, mpi_count(count), types.at(static_cast<std::size_t>(type)),
                        operations.at(static_cast<std::size_t>(reduction)), comm_.comm),
          "MPI_Allreduce");
    });
  }

  void all_gather_bytes(std::span<const std::byte> part, std::span<std::byte> all) override {
    collective("all-gather", [&] { all_gather(part.data(), part.size(), all.data()); });
  }

  /// Without overlap, the collective runs in wait(), since MPI makes no progress by itself. With overlap, its
  /// messages are posted here, and progress whenever MPI is called.
  Request start(const AsyncCollective& call, device::EventHandle) override {
    activity().enter_collective();
    pending_.emplace_back().call = call;
    if (overlaps_) waiting(to_string(call.kind), [&] { post(pending_.back()); });
    return {completed_ + static_cast<std::int64_t>(pending_.size()) - 1};
  }

  device::EventHandle wait(Request request) override {
    const std::int64_t begun = completed_ + static_cast<std::int64_t>(pending_.size());
    if (request.id < 0 || request.id >= begun) {
      throw std::logic_error(format("Communicator::wait: collective {} was never started", request.id));
    }
    // Collectives finish in the order in which they were started, which is the same on all ranks.
    for (; completed_ <= request.id; ++completed_) {
      waiting("wait", [&] { complete(pending_.front()); });
      pending_.pop_front();
    }
    return {};
  }

  void quiesce() noexcept override {
    const auto end = std::chrono::steady_clock::now() + quiesce_timeout;
    try {
      while (!pending_.empty() && std::chrono::steady_clock::now() < end) {
        std::vector<MPI_Request>& requests = pending_.front().requests;
        int all = 0;
        check_mpi(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &all, MPI_STATUSES_IGNORE),
                  "MPI_Testall");
        if (all != 0)
          pending_.pop_front();
        else
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    } catch (const RunError&) {
    }
    // Other ranks may still write to these buffers, so their memory is leaked deliberately.
    if (!pending_.empty()) new std::deque<PendingCollective>(std::move(pending_));
    pending_.clear();
  }

  [[noreturn]] void abort(int code) override {
    const ScopedExitTimer exit_timer(seconds_to_abort, "", code);
    std::fflush(nullptr);
    if (hosts_ > 1) kill_launcher_after(seconds_to_end_launcher);
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }

 private:
  struct PendingCollective {
    AsyncCollective call;
    std::optional<Timeline::Span> span;     // from its beginning to its end
    std::vector<MPI_Request> requests;      // of its messages; empty until they are posted
    std::unique_ptr<std::byte[]> received;  // this rank's part of the other ranks' values
  };

  template <class F>
  void collective(const char* name, F&& f) {
    activity().enter_collective();
    waiting(name, f);
  }
  /// Runs `f`, which may block on other ranks. If it fails, MPI is marked as unusable, even if a caller
  /// handles the error.
  template <class F>
  void waiting(const char* name, F&& f) {
    const Activity::Wait wait(activity(), name);
    try {
      f();
    } catch (const RunError&) {
      session_->mark_failed();
      throw;
    }
  }

  /// Returns the bytes of one rank's part. The remainder of an all-reduce, if its count is not a multiple of
  /// the number of ranks, belongs to no part.
  std::size_t part_bytes(const AsyncCollective& call) const {
    const bool all_reduce = call.kind == CollectiveKind::all_reduce_sum;
    return static_cast<std::size_t>(all_reduce ? call.count / size_ : call.count) * call.element_bytes();
  }

  void begin(PendingCollective& started) {
    const AsyncCollective& call = started.call;
    const std::size_t bytes = std::max(call.in_bytes(size_), call.out_bytes(size_));
    started.span.emplace(activity().timeline(), Track::communication, to_string(call.kind), "bytes",
                         static_cast<std::int64_t>(bytes));
  }

  void post(PendingCollective& started) {
    begin(started);
    if (started.call.kind != CollectiveKind::all_gather) return post_parts(started);
    all_gather(started.call.in, part_bytes(started.call), started.call.out, &started.requests);
  }

  void complete(PendingCollective& started) {
    const AsyncCollective& call = started.call;
    if (!overlaps_) {
      begin(started);
      if (call.kind == CollectiveKind::all_gather) return all_gather(call.in, part_bytes(call), call.out);
      if (call.kind == CollectiveKind::all_reduce_sum && call.type == ElementType::float32) {
        check_mpi(
            MPI_Allreduce(MPI_IN_PLACE, call.out, mpi_count(call.count), MPI_FLOAT, MPI_SUM, comm_.comm),
            "MPI_Allreduce");
        return;
      }
      post_parts(started);
    }
    wait_all(started.requests);
    if (call.kind == CollectiveKind::all_gather) return;
    if (call.type == ElementType::bf16)
      reduce_received<Bf16>(started);
    else
      reduce_received<float>(started);
  }

  /// Posts the messages that send all parts to their owners, which then sum them. MPI_Reduce_scatter_block
  /// takes three times as long on one host.
  void post_parts(PendingCollective& started) {
    const std::size_t bytes = part_bytes(started.call);
    if (bytes == 0) return;
    const int count = mpi_count(bytes);  // before anything is posted
    const auto* values = static_cast<const std::byte*>(started.call.in);
    started.received =
        std::make_unique_for_overwrite<std::byte[]>(bytes * static_cast<std::size_t>(size_ - 1));
    for (int k = 1; k < size_; ++k) {
      const int from = (rank_ - k + size_) % size_;
      post_receive(started.received.get() + static_cast<std::size_t>(k - 1) * bytes, count, from, comm_.comm,
                   started.requests);
    }
    for (int k = 1; k < size_; ++k) {
      const int to = (rank_ + k) % size_;
      post_send(values + static_cast<std::size_t>(to) * bytes, count, to, comm_.comm, started.requests);
    }
  }

  /// Sums the parts received by post_parts, in rank order. For an all-reduce, also gathers the sums.
  template <class T>
  void reduce_received(const PendingCollective& started) {
    const AsyncCollective& call = started.call;
    const std::size_t part = part_bytes(call) / sizeof(T);
    const auto ranks = static_cast<std::size_t>(size_);
    const auto rank = static_cast<std::size_t>(rank_);
    const auto* received = reinterpret_cast<const T*>(started.received.get());
    const bool all_reduce = call.kind == CollectiveKind::all_reduce_sum;
    T* const sum = static_cast<T*>(call.out) + (all_reduce ? rank * part : 0);
    std::vector<const T*> terms(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
      const std::size_t k = (rank + ranks - r) % ranks;  // as in post_parts
      terms[r] = k == 0 ? static_cast<const T*>(call.in) + rank * part : received + (k - 1) * part;
    }
    ordered_sum<T>(terms, static_cast<std::int64_t>(part), sum);
    if (!all_reduce) return;
    T* const values = static_cast<T*>(call.out);
    all_gather(sum, part * sizeof(T), values);
    // The remainder has fewer elements than there are ranks: every rank sums all of them.
    const std::size_t rest = static_cast<std::size_t>(call.count) - part * ranks;
    std::vector<T> all(rest * ranks);
    all_gather(values + part * ranks, rest * sizeof(T), all.data());
    for (std::size_t r = 0; r < ranks; ++r) terms[r] = all.data() + r * rest;
    ordered_sum<T>(terms, static_cast<std::int64_t>(rest), values + part * ranks);
  }

  /// Gathers `bytes` bytes of each rank's `part` in `all`; `part` may be this rank's range of `all`. With
  /// `requests` the call does not block, and adds its request there.
  void all_gather(const void* part, std::size_t bytes, void* all,
                  std::vector<MPI_Request>* requests = nullptr) {
    if (bytes == 0) return;
    const int count = mpi_count(bytes);
    if (part == static_cast<std::byte*>(all) + static_cast<std::size_t>(rank_) * bytes) part = MPI_IN_PLACE;
    if (requests == nullptr) {
      check_mpi(MPI_Allgather(part, count, MPI_BYTE, all, count, MPI_BYTE, comm_.comm), "MPI_Allgather");
      return;
    }
    check_mpi(
        MPI_Iallgather(part, count, MPI_BYTE, all, count, MPI_BYTE, comm_.comm, &requests->emplace_back()),
        "MPI_Iallgather");
  }

  void check_ranks_joined() const {
    const int started = launcher_size().value_or(1);
    if (size_ > 1 || started <= 1) return;
    throw InputError(
        format("the launcher started {} processes, but each has an MPI_COMM_WORLD of size 1: "
               "its process-management interface does not match this program's MPI library ({}); "
               "use srun --mpi=pmix, or that library's mpirun",
               started, MpiSession::library()));
  }

  void query_local_ranks() {
    ScopedComm node(*session_);
    check_mpi(MPI_Comm_split_type(comm_.comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node.comm),
              "MPI_Comm_split_type");
    check_mpi(MPI_Comm_rank(node.comm, &local_rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(node.comm, &local_size_), "MPI_Comm_size");
    hosts_ = all_reduce(std::int64_t{local_rank_ == 0 ? 1 : 0});
  }

  static constexpr std::chrono::seconds quiesce_timeout{2};
  static constexpr double seconds_to_abort = 5.0;
  static constexpr double seconds_to_end_launcher = 10.0;

  std::optional<ScopedExitTimer> join_timer_;
  bool overlaps_;
  // Destroyed in reverse order: the communicator before MPI.
  std::shared_ptr<MpiSession> session_;  // of all communicators that were split from the first one
  std::string algorithm_;
  ScopedComm comm_;
  std::deque<PendingCollective> pending_;
  std::int64_t completed_ = 0;  // number of finished non-blocking collectives
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  std::int64_t hosts_ = 1;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(const DistributedOptions& options) {
  if (const std::string advice = pmi_mismatch_hint(); !advice.empty()) {
    // MPI may terminate a task that it cannot connect, and srun then terminates all tasks. The delay lets
    // task 0 print the advice first.
    if (launcher_rank().value_or(0) == 0) {
      write_error_line("warning: " + advice);
    } else {
      std::this_thread::sleep_for(std::chrono::seconds(3));
    }
  }
  return std::make_unique<MpiCommunicator>(options);
}

}  // namespace vaecf::comm
