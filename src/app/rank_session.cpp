#include "app/rank_session.hpp"

#include <vaecf/base/host.hpp>
#include <vaecf/comm/launcher.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <new>
#include <span>
#include <system_error>
#include <utility>

#include "app/cores.hpp"
#include "app/doctor/check_result.hpp"
#include "app/doctor/launcher.hpp"
#include "app/rank_devices.hpp"
#include "app/stop_signals.hpp"
#include "app/task_result.hpp"

namespace vaecf::app {
namespace {

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGUSR1, SIGTERM, SIGINT}) sigaddset(&set, number);
  return set;
}

/// Raises the signal with its default effect, so that the process ends with it, unless the process ignores
/// it.
void end_by(int number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  std::raise(number);
  // Reached if the process ignores the signal, as a background job of a shell ignores INT.
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

/// Returns what to do if the system refuses a thread.
std::string thread_advice() {
  rlimit limit{};
  const bool limited = getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return format(
      "raise the limit of this user's processes and threads (RLIMIT_NPROC, ulimit -u), which is {}, or that of the container or job (pids.max), or set backend.threads or start fewer ranks",
      limited ? format("{}", limit.rlim_cur) : "not set");
}

int fair_share(CpuAffinity cores, int ranks_on_host) {
  return std::max(1, cores_within(cores.limit, cores.available) / std::max(1, ranks_on_host));
}

}  // namespace

TaskResult run_and_capture(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (const Error& error) {
    return {error.code(), error.what(), error.on_all_ranks()};
  } catch (const std::filesystem::filesystem_error& error) {
    // Caused by a path of the user: a folder without search permission, a name that is too long, or a cycle
    // of symbolic links.
    const std::string path = error.path1().string();
    return {ExitCode::bad_input,
            format("{}: {}; check the path and its permissions", path, error.code().message()), false};
  } catch (const std::bad_alloc&) {
    return {
        ExitCode::failed,
        "out of memory; raise the limit (ulimit -v, the job's limit), or reduce the need: in training a smaller batch or model or more ranks, in prepare data.prepare.memory_gib",
        false};
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again)
      return {ExitCode::failed, format("internal error: {}", error.what()), false};
    return {ExitCode::failed, format("a thread cannot be started ({}); {}", error.what(), thread_advice()),
            false};
  } catch (const std::exception& error) {
    return {ExitCode::failed, format("internal error: {}", error.what()), false};
  }
}

void print_error(const TaskResult& outcome, int rank) {
  const std::string line = rank < 0 ? format("vaecf_dist: {}\n", outcome.message)
                                    : format("vaecf_dist: rank {}: {}\n", rank, outcome.message);
  const std::string shown = escape(line);
  std::fwrite(shown.data(), 1, shown.size(), stderr);
  std::fflush(stderr);
}

std::unique_ptr<comm::Communicator> make_communicator(const comm::DistributedOptions& options) {
  if (!comm::launched_by_mpi()) return comm::make_self_communicator();
  // Before MPI is initialized, which may fail for this reason.
  if (comm::launcher_rank().value_or(0) == 0) {
    for (const CheckResult& finding : check_mpirun(query_launcher(), comm::mpi_library()))
      Log(Verbosity::quiet, true).warn("{}; {}", finding.text, finding.advice);
  }
  return comm::make_mpi_communicator(options);
}

ExitCode RankSession::together(const TaskResult& outcome) {
  const auto mine = static_cast<std::int64_t>(outcome.code);
  // A gather instead of a reduction, because ranks with different configurations may use different all-reduce
  // algorithms.
  std::vector<std::int64_t> codes(hosts_->size());
  hosts_->all_gather(std::span<const std::int64_t>(&mine, 1), std::span<std::int64_t>(codes));
  for (int rank = 0; rank < hosts_->size(); ++rank) {
    const std::int64_t code = codes[rank];
    if (code == 0) continue;
    // Errors on rank 0 usually occur on all ranks, so the message omits the rank.
    if (rank == hosts_->rank()) print_error(outcome, rank == 0 ? -1 : rank);
    hosts_->barrier();  // the message is printed before the first rank exits
    return code_ = static_cast<ExitCode>(code);
  }
  return code_;
}

ExitCode RankSession::together(const std::function<void()>& phase) {
  return code_ == ExitCode::done ? together(run_and_capture(phase)) : code_;
}

void RankSession::watch(const comm::DistributedOptions& limits, const StopFlag* stop, AtFailure at_failure) {
  at_failure_ = std::move(at_failure);
  together([&] { watchdog_ = std::make_unique<comm::Watchdog>(*hosts_, limits, stop, at_failure_); });
}

ExitCode RankSession::work(const std::function<ExitCode(std::string& phase)>& work, std::string phase) {
  if (code_ != ExitCode::done) return code_;
  ExitCode ended = ExitCode::done;
  TaskResult outcome = run_and_capture([&] { ended = work(phase); });
  if (outcome.ok()) return ended;
  if (console.progress) console.progress->end();
  if (hosts_->size() == 1) {
    print_error(outcome);
    if (at_failure_) at_failure_(outcome.message);
    return outcome.code;
  }
  const int rank = hosts_->rank();
  const Activity::Report at = hosts_->activity().report();
  outcome.message = format("{} failed: {} (on {}, in {}, step {})", phase, outcome.message, hosts_->host(),
                           to_string(at.phase), at.step);
  if (outcome.on_all_ranks && rank > 0) {
    std::this_thread::sleep_for(std::chrono::seconds(5));
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(250) * std::min(rank, 8));
    print_error(outcome, rank);
    if (at_failure_) at_failure_(outcome.message);
  }
  ranks().abort(static_cast<int>(outcome.code));
  return outcome.code;  // never reached
}

std::string format_ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += text.empty() ? "" : ", ";
    text += end - i == 1 ? format("{}", numbers[i]) : format("{}-{}", numbers[i], numbers[end - 1]);
    i = end;
  }
  return text;
}

CpuAffinity query_affinity() {
  const int own = static_cast<int>(cores_of_process(0).size());
  // mpirun binds its children, but not itself: the affinity mask of the parent contains all cores of the job.
  return {own, std::max(own, static_cast<int>(cores_of_process(getppid()).size())), cpu_limit()};
}

int default_threads(CpuAffinity cores, int ranks_on_host) {
  const int share = fair_share(cores, ranks_on_host);
  return cores.bound > 0 ? std::min(cores.bound, share) : share;
}

std::string binding_advice(CpuAffinity cores, int ranks_on_host, int wanted, int running) {
  const int aim = wanted > 0 ? wanted : fair_share(cores, ranks_on_host);
  if (cores.bound >= aim || cores.bound >= cores.available) return "";
  return format(
      "the launcher bound each rank to {} of {} cores, so {} thread{} per rank, but {} could run in parallel; "
      "use mpirun --bind-to none, or --map-by slot:PE={}",
      cores.bound, cores.available, running, running == 1 ? " runs" : "s share them",
      std::min(aim, cores.available), std::min(aim, cores.available));
}

int requested_threads(const config::Config& config) {
  const char* variable = std::getenv("OMP_NUM_THREADS");
  if (config.backend.threads > 0 || variable == nullptr) return config.backend.threads;
  const long threads = std::strtol(variable, nullptr, 10);
  if (threads > device::max_threads) {
    throw InputError(format("OMP_NUM_THREADS: must be at most {}, got {}; set it or backend.threads",
                            device::max_threads, variable));
  }
  return static_cast<int>(threads);
}

device::BackendOptions backend_options_for_rank(const config::Config& config,
                                                const comm::Communicator& ranks) {
  device::BackendOptions options = config.backend;
  options.local_rank = ranks.local_rank();
  options.local_size = ranks.local_size();
  if (requested_threads(config) == 0) options.threads = default_threads(query_affinity(), ranks.local_size());
  return options;
}

std::vector<RankDevice> gather_devices(comm::Communicator& communicator, const device::DeviceFacts& mine) {
  const auto hosts = all_gather_strings(communicator, communicator.host());
  const auto devices = all_gather_strings(communicator, to_string(mine.kind));
  const auto ids = all_gather_strings(communicator, mine.id);
  std::vector<RankDevice> ranks;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    ranks.push_back({hosts[rank], *parse_enum<device::DeviceKind>(devices[rank]), ids[rank]});
  return ranks;
}

std::string shared_devices(const std::vector<RankDevice>& ranks) {
  std::map<std::pair<std::string, std::string>, std::vector<int>> users;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (!ranks[rank].id.empty()) users[{ranks[rank].host, ranks[rank].id}].push_back(static_cast<int>(rank));
  std::string text;
  for (const auto& [place, sharing] : users) {
    if (sharing.size() < 2) continue;
    text += format("{}ranks {} of {} share {}", text.empty() ? "" : "; ", format_ranges(sharing), place.first,
                   place.second);
  }
  return text;
}

std::string check_devices(const std::vector<RankDevice>& ranks, bool may_share) {
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    if (ranks[rank].device == ranks[0].device) continue;
    throw InputError(format(
        "rank {} on {} uses {}, but rank 0 on {} uses {}; set device: cpu, or make GPUs visible to all ranks",
        rank, ranks[rank].host, to_string(ranks[rank].device), ranks[0].host, to_string(ranks[0].device)));
  }
  const std::string shared = shared_devices(ranks);
  if (shared.empty()) return "";
  if (!may_share) {
    throw InputError(format(
        "{}, but each rank needs its own GPU; start as many ranks per host as it has GPUs (mpirun --map-by ppr:N:node), check CUDA_VISIBLE_DEVICES, or set device: cpu; "
        "for tests, distributed.allow_shared_gpu: true permits sharing",
        shared));
  }
  return format("{} (distributed.allow_shared_gpu: true); timings are meaningless", shared);
}

StopSignals::StopSignals(StopFlag& flag) : flag_(flag) {
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGUSR1, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  // Ctrl-C also ends the reader of a pipe that receives the log, as in `vaecf_dist c.yaml 2>&1 | tee log`.
  std::signal(SIGPIPE, SIG_IGN);
  thread_ = std::thread([this] { wait_for_signals(); });
}

void StopSignals::handle_sigint() {
  std::signal(SIGINT, SIG_DFL);  // a background job of a shell inherits it as ignored
  handles_sigint_ = true;
}

StopSignals::~StopSignals() {
  done_ = true;
  pthread_kill(thread_.native_handle(), SIGUSR1);
  thread_.join();
  // A late USR1 must not end a completed run.
  std::signal(SIGUSR1, SIG_IGN);
  if (stopped_) std::signal(SIGTERM, SIG_IGN);
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

void StopSignals::wait_for_signals() {
  pthread_setname_np(pthread_self(), "stop signals");
  const sigset_t signals = stop_signals();
  for (int number = 0; sigwait(&signals, &number) == 0 && !done_;) take(number);
}

void StopSignals::take(int number) {
  if (number == SIGINT && !handles_sigint_) return end_by(number);
  flag_.request();
  if (number == SIGUSR1 || (number == SIGTERM && stopped_)) return;
  const auto now = std::chrono::steady_clock::now();
  // Slurm sends two TERMs at once when a job reaches its time limit; they count as one request.
  constexpr std::chrono::seconds one_request{2};
  const bool is_first = !first_at_;
  if (is_first) first_at_ = now;
  if (!is_first && (number == SIGINT || now - *first_at_ >= one_request)) end_by(number);
}

}  // namespace vaecf::app
