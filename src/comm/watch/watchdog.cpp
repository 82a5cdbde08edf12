#include <vaecf/base/failure.hpp>
#include <vaecf/comm/collective.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/watchdog.hpp>

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <limits>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "comm/mpi/mpi_session.hpp"
#include "comm/watch/exit_timer.hpp"
#include "comm/watch/stall_detector.hpp"

namespace vaecf::comm {
namespace {

// Only the watchdog sends point-to-point messages on MPI_COMM_WORLD.
constexpr int heartbeat_tag = 1;
constexpr int last_heartbeat_tag = 2;

struct Heartbeat {
  std::array<char, 80> name{};  // "rank 2 on node7"
  Activity::Report report;
};

struct Send {
  int to = 0;
  Heartbeat heartbeat;
  MPI_Request request = MPI_REQUEST_NULL;
};

}  // namespace

class Watchdog::Impl {
 public:
  Impl(Communicator& communicator, const DistributedOptions& options, const StopFlag* stop_flag,
       AtFailure at_failure)
      : communicator_(communicator),
        stop_flag_(stop_flag),
        at_failure_(std::move(at_failure)),
        rank_(communicator.rank()) {
    name_ = format("rank {} on {}", rank_, communicator.host());
    // At least eight heartbeats within the shortest limit, and at least one per second.
    interval_ = std::clamp(std::min({options.stall_warning, options.timeout, options.startup_timeout,
                                     options.validation_timeout}) /
                               8,
                           0.02, 1.0);
    sends_heartbeats_ = communicator.size() > 1 && MpiSession().threads_may_call_mpi();
    if (communicator.size() > 1 && !sends_heartbeats_ && rank_ == 0)
      write_error_line(
          "MPI does not let threads call it (MPI_THREAD_MULTIPLE), so each rank watches only itself");
    // Rank 0 watches all ranks, and every other rank watches rank 0 only. If rank 0 sends no heartbeat, rank
    // 1 reports it and aborts the run. Higher ranks abort 5 seconds later if they still run, for example
    // because a broken link separates them from rank 1.
    DistributedOptions limits = options;
    if (sends_heartbeats_ && rank_ > 1) {
      limits.timeout += 5.0;
      limits.stall_warning = std::numeric_limits<double>::infinity();
    }
    const int watched = sends_heartbeats_ && rank_ == 0 ? communicator.size() : 1;
    for (int to = 0; sends_heartbeats_ && to < watched; ++to) {
      if (to != rank_) sends_.push_back({to, {}, MPI_REQUEST_NULL});
    }
    detector_.emplace(limits, interval_, static_cast<std::size_t>(watched));
    send(heartbeat_tag);  // at once, so that messages can name the host of a rank that stops early
    thread_ = std::jthread([this](const std::stop_token& stop) {
      // A round counts once, however long it took, because the process or machine may have been suspended.
      for (double now = 0.0; !stopped_within(interval_, stop);) check(now += interval_);
    });
  }

  ~Impl() {
    bool all_ranks_end = std::uncaught_exceptions() <= exceptions_at_start_;
    try {
      communicator_.activity().enter(Phase::shutdown);
      if (all_ranks_end) communicator_.barrier();
    } catch (const std::exception&) {
      all_ranks_end = false;
    }
    constexpr double limit = 30.0;
    const ScopedExitTimer exit_timer(
        limit, format("{} is done, but another rank has not finished for {:g} s: it is gone or hangs", name_,
                      limit));
    thread_ = {};  // joined
    if (all_ranks_end && sends_heartbeats_) receive_last();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

 private:
  void check(double now) {
    const Activity::Report own = communicator_.activity().report();
    try {
      communicator_.activity().check_device();
    } catch (const std::exception& error) {
      end_run(failure_code(error),
              format("{}, in {}, step {}: {}", name_, to_string(own.phase), own.step, error.what()));
    }
    send(heartbeat_tag);
    receive(now);
    if (rank_ == 0 || !sends_heartbeats_) detector_->record_heartbeat(0, name_, own, now);
    const StallDetector::Result result =
        detector_->update(now, stop_flag_ != nullptr && stop_flag_->requested());
    if (result.end_run) end_run(result.code, result.message);
    if (!result.message.empty()) write_error_line(result.message);
  }

  // Errors of the MPI calls below are ignored: a heartbeat that does not arrive is reported as missing.

  void send(int tag) {
    for (Send& send : sends_) {
      int free = 0;
      MPI_Test(&send.request, &free, MPI_STATUS_IGNORE);
      if (free == 0) continue;  // at most one pending message per receiver, which may have stopped
      name_.copy(send.heartbeat.name.data(), send.heartbeat.name.size() - 1);
      send.heartbeat.report = communicator_.activity().report();
      MPI_Isend(&send.heartbeat, sizeof(Heartbeat), MPI_BYTE, send.to, tag, MPI_COMM_WORLD, &send.request);
    }
  }

  /// Receives all heartbeats that have arrived. This also lets MPI progress while the worker thread waits for
  /// a device.
  void receive(double now) {
    while (sends_heartbeats_) {
      int arrived = 0;
      MPI_Status status;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &arrived, &status);
      if (arrived == 0) return;
      Heartbeat heartbeat;
      MPI_Recv(&heartbeat, sizeof(heartbeat), MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
      // Rank 0 checks its own progress, since only it receives the heartbeats of all ranks.
      if (rank_ != 0) heartbeat.report.waiting = true;
      detector_->record_heartbeat(static_cast<std::size_t>(status.MPI_SOURCE), heartbeat.name.data(),
                                  heartbeat.report, now);
      if (status.MPI_TAG == last_heartbeat_tag) ++finished_;
    }
  }

  /// Exchanges last heartbeats, so that no message is pending at MPI_Finalize. Collective.
  void receive_last() {
    const auto wait_for_sends = [this] {
      for (Send& send : sends_) MPI_Wait(&send.request, MPI_STATUS_IGNORE);
    };
    wait_for_sends();
    send(last_heartbeat_tag);
    while (finished_ < sends_.size()) receive(0.0);
    wait_for_sends();
  }

  [[noreturn]] void end_run(FailureCode code, const std::string& message) {
    write_error_line(message);
    if (at_failure_) at_failure_(code, message);
    communicator_.abort(static_cast<int>(ExitCode::failed));
    std::abort();  // not reached: GCC does not see that a virtual function never returns
  }

  Communicator& communicator_;
  const StopFlag* stop_flag_;
  AtFailure at_failure_;
  int rank_;
  std::string name_;
  double interval_;        // seconds from one heartbeat to the next
  bool sends_heartbeats_;  // false: each rank watches only itself
  int exceptions_at_start_ = std::uncaught_exceptions();
  std::vector<Send> sends_;
  std::size_t finished_ = 0;  // ranks whose last heartbeat has arrived
  std::optional<StallDetector> detector_;
  std::jthread thread_;
};

Watchdog::Watchdog(Communicator& communicator, const DistributedOptions& options, const StopFlag* stop_flag,
                   AtFailure at_failure)
    : impl_(std::make_unique<Impl>(communicator, options, stop_flag, std::move(at_failure))) {}
Watchdog::~Watchdog() = default;

}  // namespace vaecf::comm
