#include <vaecf/base/failure.hpp>
#include <vaecf/base/timeline.hpp>
#include <vaecf/comm/collective.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/nccl.hpp>

#include <mpi.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace vaecf::comm {
namespace {

/// Owns a non-blocking NCCL communicator (ncclComm_t), whose state is polled. A failed start() throws
/// RunError and aborts the connection.
class NcclComm {
 public:
  /// Returns the version of the NCCL library in use, such as 22809 for 2.28.9. Throws RunError if the query
  /// fails.
  static int version() {
    int version = 0;
    check_nccl(ncclGetVersion(&version), "querying its version");
    return version;
  }

  /// Connects the ranks of `control` or, with `parent`, those of its ranks that pass the same `color`, in the
  /// order of `key`, which are the ranks of `control`. `timeout` in seconds limits both connecting and
  /// disconnecting. Throws RunError if NCCL has not connected the ranks by then. Collective.
  NcclComm(Communicator& control, double timeout, NcclComm* parent = nullptr, int color = 0, int key = 0)
      : name_(format("rank {} on {}", control.rank(), control.host())),
        timeout_(timeout),
        exceptions_at_start_(std::uncaught_exceptions()) {
    const std::string what = format("connecting {} ranks", control.size());
    const auto split = [&](ncclComm_t all) {
      // Returns success at once (NCCL 2.28), but sets comm_ only when `all` is no longer in progress.
      const ncclResult_t result = ncclCommSplit(all, color, key, &comm_, nullptr);
      return result == ncclSuccess ? ncclInProgress : result;
    };
    const ncclUniqueId id = parent == nullptr ? broadcast_id(control) : ncclUniqueId{};
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;  // otherwise a rank that waits for others could not be aborted
    try {
      if (parent != nullptr)
        parent->start(what, split, timeout);
      else
        check_nccl(ncclCommInitRankConfig(&comm_, control.size(), id, control.rank(), &config), what);
      wait(what, timeout);
    } catch (...) {
      abort();
      throw;
    }
  }
  /// Disconnects from the other ranks (collective), or aborts if an exception is unwinding.
  ~NcclComm() {
    if (std::uncaught_exceptions() > exceptions_at_start_) abort();
    if (comm_ == nullptr) return;
    try {
      const std::string what = "disconnecting from the other ranks";
      check_nccl(ncclCommFinalize(comm_), what);
      wait(what, timeout_);
      ncclCommDestroy(comm_);
    } catch (...) {
      abort();
    }
  }
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  /// Runs `call` and blocks until NCCL has enqueued it in its stream, so that an event can be recorded after
  /// it. `what` describes the call in messages. Throws RunError if NCCL fails, after `timeout` seconds, or if
  /// the connection was aborted. The watchdog detects a collective that makes no progress.
  void start(const std::string& what, const std::function<ncclResult_t(ncclComm_t)>& call,
             double timeout = std::numeric_limits<double>::infinity()) {
    const std::lock_guard lock(mutex_);
    if (comm_ == nullptr)
      throw CausedError(FailureCode::rank_lost,
                        "NCCL: the connection to the other ranks was aborted after an earlier error");
    try {
      const ncclResult_t result = call(comm_);
      check_nccl(result, what);
      if (result == ncclInProgress) wait(what, timeout);
    } catch (...) {
      abort();
      throw;
    }
  }
  /// Throws RunError if NCCL reports an asynchronous error. May be called from any thread; returns
  /// immediately while start() runs in another thread, which then reports the error.
  void check() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock && comm_ != nullptr) done("a collective");
  }
  /// Aborts NCCL's kernels on the GPU, so that their memory can be freed. Returns within seconds.
  void abort() noexcept {
    if (comm_ == nullptr) return;
    const ncclComm_t comm = std::exchange(comm_, nullptr);
    try {
      // ncclCommAbort first stops NCCL's kernels, then blocks until the last captured graph that contains
      // them is destroyed. That happens while the current exception unwinds, so the call must not block this
      // thread.
      auto ended = std::make_shared<std::promise<void>>();
      const std::future<void> end = ended->get_future();
      std::thread([comm, ended] {
        ncclCommAbort(comm);
        ended->set_value();
      }).detach();
      end.wait_for(std::chrono::seconds(2));
    } catch (...) {
      // No thread could be started: the end of the process releases what NCCL holds.
    }
  }

 private:
  [[noreturn]] static void fail(ncclResult_t result, const std::string& call) {
    std::string text = format("NCCL: {} failed: {}", call, ncclGetErrorString(result));
    const char* details = ncclGetLastError(nullptr);
    if (details != nullptr && *details != '\0') text += format(" ({})", details);
    if (result == ncclRemoteError)
      throw CausedError(
          FailureCode::rank_lost,
          text + "; another rank ended or is no longer reachable; see the messages of the other ranks");
    if (result == ncclSystemError || result == ncclUnhandledCudaError) {
      text +=
          "; ranks on one host need space in /dev/shm (for containers use --shm-size=1g --ulimit memlock=-1)";
    }
    throw RunError(text + "; set NCCL_DEBUG=INFO in the environment for details");
  }

  static void check_nccl(ncclResult_t result, const std::string& call) {
    if (result != ncclSuccess && result != ncclInProgress) fail(result, call);
  }

  /// Calls MPI once, since Open MPI responds to other ranks only during MPI calls.
  static void progress_mpi() {
    int on = 0;
    int over = 0;
    MPI_Initialized(&on);
    MPI_Finalized(&over);
    if (on == 0 || over != 0) return;
    int flag = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  }

  /// Broadcasts rank 0's NCCL id. An id of zeros means that ncclGetUniqueId failed on rank 0.
  static ncclUniqueId broadcast_id(Communicator& control) {
    ncclUniqueId id{};
    const ncclResult_t result = control.rank() == 0 ? ncclGetUniqueId(&id) : ncclSuccess;
    if (result != ncclSuccess) id = {};
    control.broadcast(std::span<char>(id.internal), 0);
    check_nccl(result, "creating a unique id");
    if (std::ranges::all_of(id.internal, [](char byte) { return byte == 0; }))
      throw RunError("NCCL: initialization failed on rank 0; see the message of that rank");
    return id;
  }

  /// Returns whether the most recent NCCL call has completed (ncclCommGetAsyncError). Throws RunError if it
  /// failed.
  bool done(const std::string& what) const {
    ncclResult_t state = ncclSuccess;
    check_nccl(ncclCommGetAsyncError(comm_, &state), "querying errors");
    check_nccl(state, what);
    return state == ncclSuccess;
  }

  /// Blocks until the most recent NCCL call has completed. Throws RunError if it failed, or after `timeout`
  /// seconds.
  void wait(const std::string& what, double timeout) const {
    // NCCL runs most calls in its own thread, which usually finishes sooner than a sleep would.
    constexpr std::chrono::microseconds soon{200};
    const auto begin = Clock::now();
    while (!done(what)) {
      progress_mpi();
      const auto waited = Clock::now() - begin;
      if (waited > std::chrono::duration<double>(timeout)) {
        throw CausedError(
            FailureCode::stalled,
            format(
                "{} has waited {:g} s (watchdog.timeout_seconds) for NCCL: {}. "
                "Another rank did not make the same call, or is not reachable; "
                "check the messages of the other ranks, and that their hosts can reach each other (NCCL_DEBUG=INFO shows the network, NCCL_SOCKET_IFNAME selects it)",
                name_, timeout, what));
      }
      if (waited < soon) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    }
  }

  std::string name_;  ///< "rank 1 on node7"
  double timeout_;
  int exceptions_at_start_;
  std::mutex mutex_;           ///< serializes NCCL calls; ncclCommGetAsyncError may complete a pending call
  ncclComm_t comm_ = nullptr;  ///< null after abort()
};

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw RunError(format("GPU: {} for NCCL failed: {}", what, cudaGetErrorString(status)));
}

using Event = std::shared_ptr<std::remove_pointer_t<cudaEvent_t>>;
using Stream = std::shared_ptr<std::remove_pointer_t<cudaStream_t>>;

Event make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
  return {event, cudaEventDestroy};
}

/// Creates a stream of the highest priority: other ranks wait for communication, but not for this rank's
/// compute.
Stream make_stream() {
  int least = 0;
  int greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "querying the stream priorities");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest), "creating a stream");
  return {stream, cudaStreamDestroy};
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(Communicator& control, const std::string& device_id, const NcclOptions& options)
      : control_(control),
        settings_(negotiate_nccl_settings(control, options, device_id, NcclComm::version())),
        timeout_(options.timeout),
        nccl_comm_(control, timeout_) {
    activity().set_device_check([this] { check_all(); });
  }
  /// Makes the part of `parent` of the ranks of `control`, which was split from the parent's by `color` and
  /// `key`. Collective.
  NcclCommunicator(NcclCommunicator& parent, std::unique_ptr<Communicator> control, int color, int key)
      : own_control_(std::move(control)),
        control_(*own_control_),
        settings_(parent.settings_),
        timeout_(parent.timeout_),
        stream_(parent.stream_),
        parent_(&parent),
        nccl_comm_(control_, timeout_, &parent.nccl_comm_, color, key) {
    const std::lock_guard lock(parent.parts_mutex_);
    parent.parts_.push_back(this);
  }

  ~NcclCommunicator() override {
    if (parent_ == nullptr) {
      activity().set_device_check({});
    } else {
      const std::lock_guard lock(parent_->parts_mutex_);
      std::erase(parent_->parts_, this);
    }
  }

  int rank() const override { return control_.rank(); }
  int size() const override { return control_.size(); }
  int local_size() const override { return control_.local_size(); }
  int local_rank() const override { return control_.local_rank(); }
  std::string host() const override { return control_.host(); }
  std::string description() const override {
    return format("NCCL {}, {}, through {}", nccl_version_string(settings_.version),
                  describe_nccl_algorithm(settings_), control_.description());
  }

  Activity& activity() override { return control_.activity(); }
  std::unique_ptr<Communicator> split(int color, int key) override {
    return std::make_unique<NcclCommunicator>(*this, control_.split(color, key), color, key);
  }

  void barrier() override { control_.barrier(); }
  void broadcast_bytes(std::span<std::byte> bytes, int root) override {
    control_.broadcast_bytes(bytes, root);
  }
  void all_reduce_raw(void* values, std::int64_t count, ElementType type, Reduction reduction) override {
    control_.all_reduce_raw(values, count, type, reduction);
  }
  void all_gather_bytes(std::span<const std::byte> part, std::span<std::byte> all) override {
    control_.all_gather_bytes(part, all);
  }
  [[noreturn]] void abort(int code) override {
    if (parent_ != nullptr) parent_->abort(code);
    activity().set_device_check({});
    abort_all();
    control_.abort(code);
    std::_Exit(code);
  }

  /// During graph capture, waiting for `after` makes this stream part of the captured graph, and the device's
  /// wait for the returned event joins it again.
  Request start(const AsyncCollective& call, device::EventHandle after) override {
    activity().enter_collective();
    if (after.event != nullptr) {
      check(cudaStreamWaitEvent(stream_.get(), static_cast<cudaEvent_t>(after.event), 0),
            "waiting for an event");
    }
    if (call.count > 0) {
      const char* type = call.type == ElementType::bf16 ? "bf16" : "fp32";
      nccl_comm_.start(format("{} of {} {} elements (collective {} of this run)", to_string(call.kind),
                              call.count, type, next_ + 1),
                       [&](ncclComm_t comm) { return enqueue(call, comm); });
    }
    Event event = next_event();
    check(cudaEventRecord(event.get(), stream_.get()), "recording an event");
    open_.emplace(next_, std::move(event));
    return {next_++};
  }

  device::EventHandle wait(Request request) override {
    const auto place = open_.find(request.id);
    if (place == open_.end()) {
      throw std::logic_error(
          format("Communicator::wait: collective {} was never started, or has been waited for", request.id));
    }
    used_.push_back(std::move(place->second));
    open_.erase(place);
    return {used_.back().get()};
  }
  bool supports_graph_capture() const override { return true; }

 private:
  /// Throws RunError if NCCL reports an error of this communicator or of a part of it.
  void check_all() {
    nccl_comm_.check();
    const std::lock_guard lock(parts_mutex_);
    for (NcclCommunicator* part : parts_) part->check_all();
  }
  void abort_all() noexcept {
    const std::lock_guard lock(parts_mutex_);
    for (NcclCommunicator* part : parts_) part->abort_all();
    nccl_comm_.abort();
  }
  ncclResult_t enqueue(const AsyncCollective& call, ncclComm_t comm) const {
    const auto count = static_cast<std::size_t>(call.count);
    const ncclDataType_t type = call.type == ElementType::bf16 ? ncclBfloat16 : ncclFloat32;
    switch (call.kind) {
      case CollectiveKind::all_reduce_sum:
        return ncclAllReduce(call.in, call.out, count, type, ncclSum, comm, stream_.get());
      case CollectiveKind::reduce_scatter_sum:
        return ncclReduceScatter(call.in, call.out, count, type, ncclSum, comm, stream_.get());
      case CollectiveKind::all_gather:
        return ncclAllGather(call.in, call.out, count, type, comm, stream_.get());
    }
    return ncclInvalidArgument;
  }

  /// Returns an event to record. An event is reused only after wait() has returned 64 others.
  Event next_event() {
    constexpr std::size_t rest = 64;
    if (used_.size() <= rest) return make_event();
    Event event = std::move(used_.front());
    used_.pop_front();
    return event;
  }

  std::unique_ptr<Communicator> own_control_;  // of a part
  Communicator& control_;
  NcclSettings settings_;
  double timeout_;
  Stream stream_ = make_stream();  // of this communicator and its parts
  NcclCommunicator* parent_ = nullptr;
  std::mutex parts_mutex_;
  std::vector<NcclCommunicator*> parts_;  // communicators that were split from this one
  std::deque<Event> used_;                // events that wait() has returned, the oldest first
  std::map<std::int64_t, Event> open_;    // events of collectives that are not waited for yet
  std::int64_t next_ = 0;
  NcclComm nccl_comm_;  // destroyed before its stream
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(Communicator& control, const std::string& device_id,
                                                     const NcclOptions& options) {
  return std::make_unique<NcclCommunicator>(control, device_id, options);
}

std::string nccl_library() {
  return format("NCCL {}", nccl_version_string(NcclComm::version()));
}

}  // namespace vaecf::comm
