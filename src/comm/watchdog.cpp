#include <sys/eventfd.h>
#include <unistd.h>
#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/comm/watchdog.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "awake_clock.hpp"
#include "deadline.hpp"
#include "deaths.hpp"
#include "heartbeats.hpp"
#include "incidents.hpp"
#include "last_words.hpp"
#include "mpi_check.hpp"
#include "neighbours.hpp"

namespace vaecf::comm {
namespace {

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

bool threads_may_call_mpi() {
  int level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  return level == MPI_THREAD_MULTIPLE;
}

std::vector<std::string> hosts_of_all(Communicator& communicator) {
  constexpr std::size_t longest = 256;
  std::array<char, longest> mine{};
  const std::string host = communicator.host();
  std::copy_n(host.begin(), std::min(host.size(), longest - 1), mine.begin());
  std::vector<char> all(longest * static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::span<const char>(mine), std::span<char>(all));
  std::vector<std::string> hosts;
  for (std::size_t at = 0; at < all.size(); at += longest) hosts.emplace_back(all.data() + at);
  return hosts;
}

/// Of many ranks that miss rank 0, the next one and the first of another host warn; and they end the run, the
/// others only where they do not, some seconds later.
constexpr double seconds_per_turn = 2.0;

int turn_for_rank_0(int rank, const std::vector<std::string>& hosts) {
  const auto other = std::ranges::find_if(hosts, [&](const std::string& host) { return host != hosts[0]; });
  if (rank <= 1) return 0;
  return rank == static_cast<int>(other - hosts.begin()) ? 1 : 2;
}

/// Wakes a poll.
class Alarm {
 public:
  Alarm() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (fd_ < 0) throw RunError(vaecf::format("eventfd failed: {}", std::strerror(errno)));
  }
  ~Alarm() { close(fd_); }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  int fd() const { return fd_; }
  void ring() noexcept { eventfd_write(fd_, 1); }

 private:
  int fd_;
};

}  // namespace

class Watchdog::Watch {
 public:
  Watch(Communicator& communicator, const DistributedOptions& options);
  ~Watch();

  void this_rank_fails() noexcept;
  const std::string& description() const { return description_; }

 private:
  std::string describe(const WatchLimits& limits) const;
  void run();
  void look();
  void watch_alone();
  Pulse pulse();
  void judge(const Pulse& own, double now);
  void look_for_dead();
  bool somebody_ends_the_run();
  bool leave_together();
  bool part();
  [[noreturn]] void end_run(const std::vector<std::string>& lines);

  Communicator& communicator_;
  int exceptions_at_start_ = std::uncaught_exceptions();
  std::optional<Incidents> incidents_;
  double tick_ = 0.25;
  bool speaks_ = true;
  double own_turn_ = 0.0;  // seconds
  std::optional<AwakeClock> clock_;
  std::optional<Neighbours> neighbours_;
  std::unique_ptr<Heartbeats> heartbeats_;
  bool hears_others_ = false;  // by heartbeats, as long as MPI does its part
  Follower self_;
  std::uint64_t looks_ = 0;  // of the last pulse
  std::optional<Deaths> deaths_;
  std::optional<double> ending_since_;
  std::optional<double> over_since_;
  Alarm alarm_;
  std::atomic<bool> fails_ = false;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> together_ = false;
  bool parted_ = false;
  std::string name_;
  std::string description_;
  std::thread thread_;
};

Watchdog::Watch::Watch(Communicator& communicator, const DistributedOptions& options)
    : communicator_(communicator), self_(communicator.rank(), 0.0) {
  const int rank = communicator.rank();
  const int size = communicator.size();
  WatchLimits limits(options, size);
  const Deadline deadline(limits.loading,
                          vaecf::format("rank {} on {} has waited {:g} s (distributed.loading_timeout) for "
                                        "other ranks to come to the start",
                                        rank, communicator.host(), limits.loading));
  const std::vector<std::string> hosts = hosts_of_all(communicator);
  tick_ = limits.heartbeat / 4;
  clock_.emplace(4 * limits.heartbeat);
  limits.alone = true;
  if (size > 1) {
    neighbours_.emplace(rank);
    if (threads_may_call_mpi()) {
      heartbeats_ = std::make_unique<Heartbeats>(rank, size, limits, clock_->now());
      hears_others_ = true;
      limits.alone = false;
      const int turn = turn_for_rank_0(rank, hosts);
      speaks_ = turn < 2;
      own_turn_ = turn * seconds_per_turn;
    }
  }
  deaths_.emplace(neighbours_ ? &*neighbours_ : nullptr, rank);
  incidents_.emplace(limits, hosts);
  name_ = incidents_->name(rank);
  description_ = describe(limits);
  thread_ = std::thread([this] { run(); });
}

Watchdog::Watch::~Watch() {
  const bool orderly = std::uncaught_exceptions() <= exceptions_at_start_ && !fails_;
  together_ = orderly && leave_together();
  if (!together_) this_rank_fails();
  stop_ = true;
  alarm_.ring();
  constexpr double patience = 30.0;
  const Deadline deadline(patience,
                          vaecf::format("{} is done, but another rank has not come to the end for {:g} "
                                        "s: it is gone or hangs on its way out",
                                        name_, patience));
  thread_.join();
  if (!parted_) {
    heartbeats_.release();  // MPI may still write to it
    return;
  }
  try {
    if (heartbeats_) heartbeats_->close();
    if (neighbours_) neighbours_->part();
  } catch (const std::exception&) {
    // MPI's end will tell.
  }
}

/// After this no rank watches any more when the first one exits.
bool Watchdog::Watch::leave_together() {
  try {
    communicator_.activity().enter(Phase::leaving);
    communicator_.barrier();
    if (neighbours_) neighbours_->tell(Neighbours::State::left);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void Watchdog::Watch::this_rank_fails() noexcept {
  fails_ = true;
  if (neighbours_) neighbours_->tell(Neighbours::State::failing);
}

std::string Watchdog::Watch::describe(const WatchLimits& limits) const {
  std::string text = vaecf::format("late ranks are named after {:g} s, given up after {:g} s",
                                   limits.warn_after, limits.timeout);
  if (!neighbours_) return text;
  if (!heartbeats_) text += "; MPI lets no threads call it, so each rank watches only itself and its host";
  const auto seen = std::ranges::count_if(neighbours_->others(), [](const auto& o) { return o.pidfd >= 0; });
  return text + vaecf::format("; {} of {} other ranks on this host are watched by the system", seen,
                              communicator_.local_size() - 1);
}

void Watchdog::Watch::run() {
  while (!stop_) {
    deaths_->sleep(tick_, alarm_.fd());
    look();
  }
  if (together_) parted_ = part();
}

void Watchdog::Watch::watch_alone() {
  hears_others_ = false;
  speaks_ = true;
  own_turn_ = 0.0;
  WatchLimits limits = incidents_->limits();
  limits.alone = true;
  incidents_ = Incidents(limits, incidents_->hosts());
}

Pulse Watchdog::Watch::pulse() {
  const Exchanges::Report exchanges = communicator_.exchanges().report();
  const Pulse own = Pulse::of(communicator_.activity().report(), exchanges, looks_);
  looks_ = exchanges.looks;
  return own;
}

void Watchdog::Watch::look() {
  const double now = clock_->now();
  const Pulse own = pulse();
  if (neighbours_) neighbours_->tell(own);
  try {
    if (hears_others_) heartbeats_->tick(own, now);
  } catch (const std::exception& error) {
    last_words(vaecf::format("warning: {} no longer hears the other ranks: {}", name_, error.what()));
    watch_alone();
  }
  if (stop_ || somebody_ends_the_run()) return;
  look_for_dead();
  judge(own, now);
}

void Watchdog::Watch::judge(const Pulse& own, double now) {
  self_.hear(own, now);
  const std::array<RankState, 1> alone{self_.state()};
  const std::span<const RankState> known = hears_others_ ? std::span(heartbeats_->states()) : alone;
  const auto verdict = incidents_->judge(known, now);
  if (verdict.end_run) {
    if (!over_since_) over_since_ = now;
    if (now - *over_since_ >= own_turn_) end_run(verdict.lines);
    return;
  }
  over_since_.reset();
  if (!speaks_) return;
  for (const std::string& line : verdict.lines) last_words(line);
}

void Watchdog::Watch::look_for_dead() {
  std::vector<std::string> lines;
  for (const std::size_t other : deaths_->due()) lines.push_back(incidents_->gone(neighbours_->last(other)));
  if (!lines.empty()) end_run(lines);
}

/// Whether a rank of this host ends the run: it has said why, and what follows from it is no news.
bool Watchdog::Watch::somebody_ends_the_run() {
  if (fails_) return true;
  const auto who = neighbours_ ? neighbours_->failing() : std::nullopt;
  if (!who) return false;
  constexpr double patience = 8.0;
  const double now = AwakeClock::steady_seconds();
  if (!ending_since_) ending_since_ = now;
  if (now - *ending_since_ > patience) {
    end_run({incidents_->name(*who) + " was to end the run, as it said, and did not come to it"});
  }
  return true;
}

/// MPI's last messages of this watch.
bool Watchdog::Watch::part() {
  constexpr double patience = 10.0;
  const double begin = AwakeClock::steady_seconds();
  try {
    while (hears_others_ && !heartbeats_->part(pulse(), clock_->now())) {
      if (AwakeClock::steady_seconds() - begin > patience) return false;
      sleep_for(0.001);
    }
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

void Watchdog::Watch::end_run(const std::vector<std::string>& lines) {
  constexpr int failed = 1;
  const Deadline deadline(5.0, "", failed);
  this_rank_fails();
  for (const std::string& line : lines) last_words(line);
  communicator_.abort(failed);
  std::_Exit(failed);
}

Watchdog::Watchdog(Communicator& communicator, const DistributedOptions& options)
    : watch_(std::make_unique<Watch>(communicator, options)) {}
Watchdog::~Watchdog() = default;

void Watchdog::this_rank_fails() noexcept {
  watch_->this_rank_fails();
}

std::string Watchdog::description() const {
  return watch_->description();
}

}  // namespace vaecf::comm
