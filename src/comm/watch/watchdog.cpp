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

#include "comm/mpi_session.hpp"
#include "comm/watch/deadline.hpp"
#include "comm/watch/stall_detector.hpp"

namespace vaecf::comm {
namespace {

/// What one rank sends to another about itself; travels as bytes.
struct Message {
  Activity::Report report;
  std::int64_t is_last = 0;
};

struct Outgoing {
  int to = 0;
  Message message;
  MPI_Request request = MPI_REQUEST_NULL;
};

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool threads_may_call_mpi() {
  int level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  return level == MPI_THREAD_MULTIPLE;
}

}  // namespace

class Watchdog::Impl {
 public:
  Impl(Communicator& communicator, const DistributedOptions& options, const StopFlag* stop_flag);
  ~Impl();
  std::string description() const;

 private:
  void run(const std::stop_token& stop);
  void look(double now);
  void send(bool is_last);
  void receive(double now);
  void part();
  [[noreturn]] void end_run(const std::string& message);

  Communicator& communicator_;
  DistributedOptions options_;
  const StopFlag* stop_flag_;
  double heartbeat_;
  int exceptions_at_start_ = std::uncaught_exceptions();
  MPI_Comm comm_ = MPI_COMM_NULL;  // none: this rank watches itself alone
  std::vector<Outgoing> outgoing_;
  std::size_t parted_ = 0;  // ranks whose last message has come
  std::optional<StallDetector> detector_;
  std::jthread thread_;
};

Watchdog::Impl::Impl(Communicator& communicator, const DistributedOptions& options, const StopFlag* stop_flag)
    : communicator_(communicator),
      options_(options),
      stop_flag_(stop_flag),
      heartbeat_(heartbeat_of(options, communicator.size())) {
  const int rank = communicator.rank();
  const int size = communicator.size();
  const Deadline deadline(
      options.loading_timeout,
      vaecf::format("rank {} on {} has waited {:g} s (distributed.loading_timeout) for other ranks to start",
                    rank, communicator.host(), options.loading_timeout));
  const std::vector<std::string> hosts = gather_texts(communicator, communicator.host());
  if (size == 1 || !threads_may_call_mpi()) {
    detector_.emplace(options, heartbeat_, rank, 1, hosts);
  } else {
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    // Rank 0 watches all ranks, each other one rank 0. If rank 0 is silent, rank 1 reports it; the others act
    // only if that did not end them, as on the far side of a link that was cut.
    DistributedOptions limits = options;
    constexpr double turn = 5.0;
    if (rank > 1) limits.timeout += turn;
    if (rank > 1) limits.warn_after = std::numeric_limits<double>::infinity();
    detector_.emplace(limits, heartbeat_, 0, rank == 0 ? size : 1, hosts);
    for (int to = 0; to < (rank == 0 ? size : 1); ++to) {
      if (to != rank) outgoing_.push_back({to, {}, MPI_REQUEST_NULL});
    }
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Watchdog::Impl::~Impl() {
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
      vaecf::format("{} is done, but another rank has not come to the end for {:g} s: it is gone or "
                    "hangs on its way out",
                    detector_->name(communicator_.rank()), patience));
  thread_ = {};  // joined
  if (together && comm_ != MPI_COMM_NULL) part();
}

std::string Watchdog::Impl::description() const {
  const bool alone = communicator_.size() > 1 && comm_ == MPI_COMM_NULL;
  return vaecf::format("late ranks are named after {:g} s, given up after {:g} s{}", options_.warn_after,
                       options_.timeout,
                       alone ? "; MPI lets no threads call it, so each rank watches only itself" : "");
}

void Watchdog::Impl::run(const std::stop_token& stop) {
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

void Watchdog::Impl::look(double now) {
  const int rank = communicator_.rank();
  const Activity::Report own = communicator_.activity().report();
  try {
    communicator_.activity().check_device();
  } catch (const std::exception& error) {
    end_run(vaecf::format("{}, in {}, step {}: {}", detector_->name(rank), to_string(own.phase), own.step,
                          error.what()));
  }
  if (comm_ != MPI_COMM_NULL) {
    send(false);
    receive(now);
  }
  if (rank == 0 || comm_ == MPI_COMM_NULL) detector_->hear(rank, own, now);
  if (stop_flag_ != nullptr && stop_flag_->requested()) detector_->expect_stop();
  const StallDetector::Verdict verdict = detector_->judge(now);
  if (verdict.end_run) end_run(verdict.line);
  if (!verdict.line.empty()) write_error_line(verdict.line);
}

// Errors of MPI's calls below are left alone: what does not arrive is silence, and reported as such.

void Watchdog::Impl::send(bool is_last) {
  for (Outgoing& out : outgoing_) {
    int free = 0;
    MPI_Test(&out.request, &free, MPI_STATUS_IGNORE);
    if (free == 0) continue;  // its receiver is stopped: nothing may pile up before it
    out.message = {communicator_.activity().report(), is_last ? 1 : 0};
    MPI_Isend(&out.message, sizeof(Message), MPI_BYTE, out.to, 0, comm_, &out.request);
  }
}

/// Takes what has come. Also moves MPI's own work on, while the thread that works waits for a device.
void Watchdog::Impl::receive(double now) {
  for (;;) {
    int here = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, 0, comm_, &here, &status);
    if (here == 0) return;
    Message message;
    MPI_Recv(&message, sizeof(Message), MPI_BYTE, status.MPI_SOURCE, 0, comm_, MPI_STATUS_IGNORE);
    // Whether rank 0 moves is for rank 0 to judge, which hears of all.
    if (communicator_.rank() != 0) message.report.waiting = 1;
    detector_->hear(status.MPI_SOURCE, message.report, now);
    if (message.is_last != 0) ++parted_;
  }
}

/// Takes the last message of each rank that sends to this one, so that MPI can end.
void Watchdog::Impl::part() {
  const auto finish_sending = [this] {
    for (Outgoing& out : outgoing_) MPI_Wait(&out.request, MPI_STATUS_IGNORE);
  };
  finish_sending();
  send(true);
  while (parted_ < outgoing_.size()) receive(0.0);
  finish_sending();
  MPI_Comm_free(&comm_);
}

void Watchdog::Impl::end_run(const std::string& message) {
  write_error_line(message);
  constexpr int failed = static_cast<int>(ExitCode::failed);
  communicator_.abort(failed);
  std::_Exit(failed);
}

Watchdog::Watchdog(Communicator& communicator, const DistributedOptions& options, const StopFlag* stop_flag)
    : impl_(std::make_unique<Impl>(communicator, options, stop_flag)) {}
Watchdog::~Watchdog() = default;

std::string Watchdog::description() const {
  return impl_->description();
}

}  // namespace vaecf::comm
