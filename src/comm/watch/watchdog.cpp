#include <vaecf/comm/watchdog.hpp>

#include "comm/mpi/mpi_session.hpp"
#include "comm/watch/exit_timer.hpp"
#include "comm/watch/stall_detector.hpp"

#include <vaecf/base/error.hpp>

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

namespace vaecf::comm {
namespace {

// Messages of the watchdog are the only ones between two ranks on MPI_COMM_WORLD.
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
  Impl(Communicator& communicator, const DistributedOptions& options, const StopFlag* stop_flag)
      : communicator_(communicator), stop_flag_(stop_flag), rank_(communicator.rank()) {
    name_ = vaecf::format("rank {} on {}", rank_, communicator.host());
    // Often enough for the shortest limit.
    seconds_ = std::clamp(std::min({options.stall_warning, options.timeout, options.startup_timeout,
                                    options.validation_timeout}) /
                              8,
                          0.02, 1.0);
    messages_ = communicator.size() > 1 && MpiSession().threads_may_call_mpi();
    if (communicator.size() > 1 && !messages_ && rank_ == 0)
      write_error_line(
          "MPI does not let threads call it (MPI_THREAD_MULTIPLE), so each rank watches only itself");
    // Rank 0 watches all ranks, each other rank only rank 0. If rank 0 is silent, rank 1 reports it; the
    // others act only if that did not end them, as on the far side of a link that was cut.
    DistributedOptions limits = options;
    if (messages_ && rank_ > 1) {
      limits.timeout += 5.0;
      limits.stall_warning = std::numeric_limits<double>::infinity();
    }
    const int watched = messages_ && rank_ == 0 ? communicator.size() : 1;
    for (int to = 0; messages_ && to < watched; ++to) {
      if (to != rank_) sends_.push_back({to, {}, MPI_REQUEST_NULL});
    }
    detector_.emplace(limits, seconds_, static_cast<std::size_t>(watched));
    send(heartbeat_tag);  // at once, so that a rank that stops early has told its host
    thread_ = std::jthread([this](const std::stop_token& stop) {
      // A round counts once, however long it took, because the process or machine may have been suspended.
      for (double now = 0.0; !stopped_within(seconds_, stop);) check(now += seconds_);
    });
  }

  ~Impl() {
    bool together = std::uncaught_exceptions() <= exceptions_at_start_;
    try {
      communicator_.activity().enter(Phase::shutdown);
      if (together) communicator_.barrier();
    } catch (const std::exception&) {
      together = false;
    }
    constexpr double limit = 30.0;
    const ScopedExitTimer exit_timer(
        limit, vaecf::format("{} is done, but another rank has not finished for {:g} s: it is gone or hangs",
                             name_, limit));
    thread_ = {};  // joined
    if (together && messages_) receive_last();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

 private:
  void check(double now) {
    const Activity::Report own = communicator_.activity().report();
    try {
      communicator_.activity().check_device();
    } catch (const std::exception& error) {
      end_run(vaecf::format("{}, in {}, step {}: {}", name_, to_string(own.phase), own.step, error.what()));
    }
    send(heartbeat_tag);
    receive(now);
    if (rank_ == 0 || !messages_) detector_->hear(0, name_, own, now);
    const StallDetector::Verdict verdict =
        detector_->judge(now, stop_flag_ != nullptr && stop_flag_->requested());
    if (verdict.end_run) end_run(verdict.message);
    if (!verdict.message.empty()) write_error_line(verdict.message);
  }

  // Errors of the MPI calls below are ignored: a heartbeat that does not arrive is reported as missing.

  void send(int tag) {
    for (Send& send : sends_) {
      int free = 0;
      MPI_Test(&send.request, &free, MPI_STATUS_IGNORE);
      if (free == 0) continue;  // its receiver is stopped, and messages must not pile up
      name_.copy(send.heartbeat.name.data(), send.heartbeat.name.size() - 1);
      send.heartbeat.report = communicator_.activity().report();
      MPI_Isend(&send.heartbeat, sizeof(Heartbeat), MPI_BYTE, send.to, tag, MPI_COMM_WORLD, &send.request);
    }
  }

  /// Receives all heartbeats that have arrived. This also lets MPI progress while the worker thread waits for
  /// a device.
  void receive(double now) {
    while (messages_) {
      int arrived = 0;
      MPI_Status status;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &arrived, &status);
      if (arrived == 0) return;
      Heartbeat heartbeat;
      MPI_Recv(&heartbeat, sizeof(heartbeat), MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
      // Only rank 0, which hears all ranks, can tell if rank 0 makes progress.
      if (rank_ != 0) heartbeat.report.waiting = true;
      detector_->hear(static_cast<std::size_t>(status.MPI_SOURCE), heartbeat.name.data(), heartbeat.report,
                      now);
      if (status.MPI_TAG == last_heartbeat_tag) ++finished_;
    }
  }

  /// Exchanges last heartbeats, so that MPI can end without messages on their way. Collective.
  void receive_last() {
    const auto finish_sending = [this] {
      for (Send& send : sends_) MPI_Wait(&send.request, MPI_STATUS_IGNORE);
    };
    finish_sending();
    send(last_heartbeat_tag);
    while (finished_ < sends_.size()) receive(0.0);
    finish_sending();
  }

  [[noreturn]] void end_run(const std::string& message) {
    write_error_line(message);
    communicator_.abort(static_cast<int>(ExitCode::failed));
    std::abort();  // not reached: GCC does not see that a virtual function never returns
  }

  Communicator& communicator_;
  const StopFlag* stop_flag_;
  int rank_;
  std::string name_;
  double seconds_;  // from one heartbeat to the next
  bool messages_;   // between ranks; otherwise each rank watches only itself
  int exceptions_at_start_ = std::uncaught_exceptions();
  std::vector<Send> sends_;
  std::size_t finished_ = 0;  // ranks whose last heartbeat has arrived
  std::optional<StallDetector> detector_;
  std::jthread thread_;
};

Watchdog::Watchdog(Communicator& communicator, const DistributedOptions& options, const StopFlag* stop_flag)
    : impl_(std::make_unique<Impl>(communicator, options, stop_flag)) {}
Watchdog::~Watchdog() = default;

}  // namespace vaecf::comm
