#pragma once

#include <vaecf/base/clock.hpp>
#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/comm/communicator.hpp>

#include <mpi.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>

namespace vaecf::comm {

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

  /// Connects the ranks of `control`. `timeout` in seconds limits both connecting and disconnecting. Throws
  /// RunError if NCCL has not connected the ranks by then. Collective.
  NcclComm(Communicator& control, double timeout)
      : name_(vaecf::format("rank {} on {}", control.rank(), control.host())),
        timeout_(timeout),
        exceptions_at_start_(std::uncaught_exceptions()) {
    const std::string what = vaecf::format("connecting {} ranks", control.size());
    const ncclUniqueId id = broadcast_id(control);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;  // otherwise a rank that waits for others could not be aborted
    try {
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
  /// it. `what` describes the call in messages. Throws RunError if NCCL fails or the connection was aborted.
  void start(const std::string& what, const std::function<ncclResult_t(ncclComm_t)>& call) {
    const std::lock_guard lock(mutex_);
    if (comm_ == nullptr)
      throw RunError("NCCL: the connection to the other ranks was aborted after an earlier error");
    try {
      const ncclResult_t result = call(comm_);
      check_nccl(result, what);
      // No timeout is needed: the watchdog detects a call that makes no progress.
      if (result == ncclInProgress) wait(what, std::numeric_limits<double>::infinity());
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
    std::string text = vaecf::format("NCCL: {} failed: {}", call, ncclGetErrorString(result));
    const char* details = ncclGetLastError(nullptr);
    if (details != nullptr && *details != '\0') text += vaecf::format(" ({})", details);
    if (result == ncclRemoteError)
      throw RunError(text +
                     "; another rank ended or is no longer reachable; see the messages of the other ranks");
    if (result == ncclSystemError || result == ncclUnhandledCudaError) {
      text +=
          "; ranks on one host need space in /dev/shm (for containers use --shm-size=1g --ulimit memlock=-1)";
    }
    throw RunError(text + "; set NCCL_DEBUG=INFO in the environment for details");
  }

  /// Throws RunError unless `result` is ncclSuccess or ncclInProgress.
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
        throw RunError(vaecf::format(
            "{} has waited {:g} s (distributed.timeout) for NCCL: {}. "
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

}  // namespace vaecf::comm
