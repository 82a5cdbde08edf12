#include "app/rank_session.hpp"

#include <vaecf/base/format.hpp>
#include <vaecf/base/utf8.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <span>
#include <thread>
#include <vector>

namespace vaecf::app {

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

}  // namespace vaecf::app
