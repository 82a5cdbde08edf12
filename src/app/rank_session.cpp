#include "app/rank_session.hpp"

#include <vaecf/base/standard_error.hpp>
#include <vaecf/comm/launcher.hpp>
#include <vaecf/comm/nccl.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/io/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <span>
#include <thread>
#include <utility>

#include "app/doctor/check_result.hpp"
#include "app/doctor/launcher.hpp"
#include "app/task_result.hpp"

namespace vaecf::app {
namespace {

/// Writes the event "failed" as a line to standard error if VAECF_RUN_ID is set. launch/watch.sh reads it
/// there, since the log of the run may not exist, or its disk be full or lost.
void write_failed(FailureCode code, int rank) {
  const char* id = std::getenv("VAECF_RUN_ID");
  if (id == nullptr || *id == '\0') return;
  io::Event event(io::EventKind::failed);
  event.set("id", id).set("code", vaecf::to_string(code)).set("rank", std::int64_t{rank});
  write_standard_error(io::dump(event.fields()) + "\n");
}

}  // namespace

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
  // A gather instead of a reduction, because ranks with different environments may use different all-reduce
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
  at_failure_ = [rank = hosts_->rank(), then = std::move(at_failure)](FailureCode code,
                                                                      const std::string& message) {
    write_failed(code, rank);
    if (then) then(code, message);
  };
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
    if (at_failure_) at_failure_(outcome.cause, outcome.message);
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
    if (at_failure_) at_failure_(outcome.cause, outcome.message);
  }
  ranks().abort(static_cast<int>(outcome.code));
  return outcome.code;  // never reached
}

void RankSession::connect_gpus(const config::Config& config) {
  const device::DeviceFacts facts = device->facts();
  if (facts.kind != device::DeviceKind::cuda || hosts().size() == 1) return;
  const auto& distributed = config.options.distributed;
  between_gpus = comm::make_nccl_communicator(hosts(), facts.id,
                                              {distributed.algorithm, config.backend.deterministic,
                                               config.backend.allow_shared_gpu, distributed.timeout});
}

}  // namespace vaecf::app
