#include <mpi.h>
#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/comm/watchdog.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

#include "comm/mpi/mpi_session.hpp"
#include "comm/watch/deadline.hpp"
#include "comm/watch/stall_detector.hpp"

namespace vaecf::comm {
namespace {

constexpr int report_tag = 0;
constexpr int last_tag = 1;  ///< the last report of a rank

struct Outgoing {
  int to = 0;
  Activity::Report report;
  MPI_Request request = MPI_REQUEST_NULL;
};

/// Seconds from one report of a rank to the next: often enough for the shortest limit.
double heartbeat_of(const DistributedOptions& options) {
  return std::clamp(
      std::min({options.warn_after, options.timeout, options.loading_timeout, options.validation_timeout}) /
          8,
      0.02, 1.0);
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

class Watchdog::Impl {
 public:
  Impl(Communicator& communicator, const DistributedOptions& options, const StopFlag* stop_flag)
      : communicator_(communicator),
        stop_flag_(stop_flag),
        name_(vaecf::format("rank {} on {}", communicator.rank(), communicator.host())),
        heartbeat_(heartbeat_of(options)) {
    const int rank = communicator.rank();
    const Deadline deadline(
        options.loading_timeout,
        vaecf::format("{} has waited {:g} s (distributed.loading_timeout) for other ranks to start", name_,
                      options.loading_timeout));
    std::vector<std::string> names = gather_texts(communicator, name_);
    DistributedOptions limits = options;
    if (communicator.size() == 1) {
      detector_.emplace(limits, heartbeat_, std::move(names), true);
    } else if (!MpiSession().threads_may_call_mpi()) {
      if (rank == 0) write_error_line("MPI lets no threads call it, so each rank watches only itself");
      detector_.emplace(limits, heartbeat_, std::vector{name_}, false);
    } else {
      check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
      // Rank 0 watches all ranks, each other one rank 0. If rank 0 is silent, rank 1 reports it; the others
      // act only if that did not end them, as on the far side of a link that was cut.
      constexpr double turn = 5.0;
      if (rank > 1) limits.timeout += turn;
      if (rank > 1) limits.warn_after = std::numeric_limits<double>::infinity();
      names.resize(rank == 0 ? names.size() : 1);
      for (int to = 0; to < static_cast<int>(names.size()); ++to) {
        if (to != rank) outgoing_.push_back({to, {}, MPI_REQUEST_NULL});
      }
      detector_.emplace(limits, heartbeat_, std::move(names), rank == 0);
    }
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  ~Impl() {
    bool together = std::uncaught_exceptions() <= exceptions_at_start_;
    try {
      communicator_.activity().enter(Phase::leaving);
      if (together) communicator_.barrier();
    } catch (const std::exception&) {
      together = false;
    }
    constexpr double patience = 30.0;
    const Deadline deadline(
        patience,
        vaecf::format(
            "{} is done, but another rank has not come to the end for {:g} s: it is gone or hangs on its way out",
            name_, patience));
    thread_ = {};  // joined
    if (together && comm_ != MPI_COMM_NULL) part();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

 private:
  void run(const std::stop_token& stop) {
    double now = 0.0;
    double last = steady_seconds();
    while (!stopped_within(heartbeat_, stop)) {
      // A longer pause was a suspended job, or a machine that slept.
      const double steady = steady_seconds();
      now += std::min(steady - last, 2 * heartbeat_);
      last = steady;
      look(now);
    }
  }

  void look(double now) {
    const Activity::Report own = communicator_.activity().report();
    try {
      communicator_.activity().check_device();
    } catch (const std::exception& error) {
      end_run(vaecf::format("{}, in {}, step {}: {}", name_, to_string(own.phase), own.step, error.what()));
    }
    if (comm_ != MPI_COMM_NULL) {
      send(report_tag);
      receive(now);
    }
    if (communicator_.rank() == 0 || comm_ == MPI_COMM_NULL) detector_->hear(0, own, now);
    if (stop_flag_ != nullptr && stop_flag_->requested()) detector_->expect_stop();
    const StallDetector::Verdict verdict = detector_->judge(now);
    if (verdict.end_run) end_run(verdict.line);
    if (!verdict.line.empty()) write_error_line(verdict.line);
  }

  // Errors of MPI's calls below are left alone: what does not arrive is silence, and reported as such.

  void send(int tag) {
    for (Outgoing& out : outgoing_) {
      int free = 0;
      MPI_Test(&out.request, &free, MPI_STATUS_IGNORE);
      if (free == 0) continue;  // its receiver is stopped: nothing may pile up before it
      out.report = communicator_.activity().report();
      MPI_Isend(&out.report, sizeof(out.report), MPI_BYTE, out.to, tag, comm_, &out.request);
    }
  }

  /// Takes what has come. Also moves MPI's own work on, while the thread that works waits for a device.
  void receive(double now) {
    for (;;) {
      int here = 0;
      MPI_Status status;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &here, &status);
      if (here == 0) return;
      Activity::Report report;
      MPI_Recv(&report, sizeof(report), MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm_,
               MPI_STATUS_IGNORE);
      // Whether rank 0 moves is for rank 0 to judge, which hears of all.
      if (communicator_.rank() != 0) report.waiting = 1;
      detector_->hear(static_cast<std::size_t>(status.MPI_SOURCE), report, now);
      if (status.MPI_TAG == last_tag) ++parted_;
    }
  }

  /// Takes the last message of each rank that sends to this one, so that MPI can end.
  void part() {
    const auto finish_sending = [this] {
      for (Outgoing& out : outgoing_) MPI_Wait(&out.request, MPI_STATUS_IGNORE);
    };
    finish_sending();
    send(last_tag);
    while (parted_ < outgoing_.size()) receive(0.0);
    finish_sending();
    MPI_Comm_free(&comm_);
  }

  [[noreturn]] void end_run(const std::string& message) {
    write_error_line(message);
    constexpr int failed = static_cast<int>(ExitCode::failed);
    communicator_.abort(failed);
    std::_Exit(failed);
  }

  Communicator& communicator_;
  const StopFlag* stop_flag_;
  std::string name_;
  double heartbeat_;
  int exceptions_at_start_ = std::uncaught_exceptions();
  MPI_Comm comm_ = MPI_COMM_NULL;  // none: this rank watches itself alone
  std::vector<Outgoing> outgoing_;
  std::size_t parted_ = 0;  // ranks whose last message has come
  std::optional<StallDetector> detector_;
  std::jthread thread_;
};

Watchdog::Watchdog(Communicator& communicator, const DistributedOptions& options, const StopFlag* stop_flag)
    : impl_(std::make_unique<Impl>(communicator, options, stop_flag)) {}
Watchdog::~Watchdog() = default;

}  // namespace vaecf::comm
