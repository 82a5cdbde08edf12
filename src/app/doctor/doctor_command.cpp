#include <vaecf/comm/launcher.hpp>
#include <vaecf/comm/watchdog.hpp>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "app/commands.hpp"
#include "app/doctor/doctor.hpp"
#include "app/ranks.hpp"

namespace vaecf::app {
namespace {

/// No wait of the doctor's is longer, whatever the configuration allows a run.
comm::DistributedOptions impatient(comm::DistributedOptions options) {
  constexpr double longest = 120.0;  // seconds
  for (double* limit : {&options.timeout, &options.loading_timeout, &options.validation_timeout}) {
    *limit = std::min(*limit, longest);
  }
  options.warn_after = std::min(options.warn_after, longest / 4.0);
  return options;
}

/// Where srun started several tasks by no protocol at all, no MPI library can join them, and Open MPI would
/// end the process while it tries.
bool cannot_join() {
  return !comm::launch_advice().empty() && std::getenv("PMI_RANK") == nullptr;
}

Outcome connect(const comm::DistributedOptions& limits, std::unique_ptr<comm::Communicator>& ranks) {
  return attempt([&] {
    if (cannot_join()) throw InputError(comm::launch_advice());
    ranks = make_communicator(limits);
  });
}

config::Config read(const CommandLine& line) {
  return line.config.empty() ? config::parse("{}", "doctor", line.overrides)
                             : config::load(line.config, line.overrides);
}

}  // namespace

ExitCode run_doctor(const CommandLine& line) {
  DoctorOrder order;
  order.version = version_text();
  order.quick = line.quick;
  order.has_config = !line.config.empty();
  const Outcome parsed = attempt([&] { order.config = read(line); });
  const comm::DistributedOptions limits = impatient(order.config.session.distributed);

  std::unique_ptr<comm::Communicator> ranks;
  std::unique_ptr<comm::Watchdog> watchdog;
  const Outcome connected = connect(limits, ranks);
  if (connected.code == ExitCode::bad_input) {
    // Each process is a world of its own: one of them says so.
    if (comm::launcher_rank().value_or(0) != 0) return ExitCode::failed;
    order.separate_worlds = connected.message;
    ranks = comm::make_self_communicator();
  } else if (!connected.ok()) {
    complain(connected);
    return connected.code;
  }
  const ExitCode ready = agree(*ranks, parsed);
  if (ready != ExitCode::done) return ready;

  ExitCode ended = ExitCode::done;
  const Outcome outcome = attempt([&] {
    watchdog = std::make_unique<comm::Watchdog>(*ranks, limits);
    ranks->activity().enter(Phase::benchmark);
    const DoctorReport report = examine(order, *ranks);
    const bool quiet = line.verbosity == Verbosity::quiet;
    const Outcome printed = attempt([&] {
      if (ranks->rank() == 0) print(line.json ? to_json(report) : to_table(report, quiet));
    });
    ended = agree(*ranks, printed);
    if (ended == ExitCode::done && report.count(Health::fail) > 0) ended = ExitCode::failed;
  });
  if (outcome.ok()) return ended;
  if (watchdog) watchdog->this_rank_fails();
  complain(outcome, ranks->size() > 1 ? ranks->rank() : -1);
  if (ranks->size() > 1) ranks->abort(static_cast<int>(outcome.code));
  return outcome.code;
}

}  // namespace vaecf::app
