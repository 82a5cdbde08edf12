#include <vaecf/base/format.hpp>
#include <vaecf/base/utf8.hpp>
#include <vaecf/checkpoint/run_log.hpp>
#include <vaecf/checkpoint/start_point.hpp>
#include <vaecf/comm/nccl.hpp>
#include <vaecf/comm/watchdog.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/io/file_lock.hpp>
#include <vaecf/models/model.hpp>
#include <vaecf/run/run_timeline.hpp>
#include <vaecf/run/train.hpp>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/commands.hpp"
#include "app/doctor/doctor.hpp"
#include "app/progress.hpp"
#include "app/ranks.hpp"
#include "app/stop_signals.hpp"
#include "app/version.hpp"

namespace vaecf::app {
namespace {

/// Returns what must be the same on all ranks: the flags of the run and the version.
std::string flags_text(const CommandLine& line) {
  return format("{}{}{}{}{}{}--resume {} of {}", line.timeline.empty() ? "" : "--timeline ",
                line.per_user.empty() ? "" : "--per-user ", line.train ? "--train " : "",
                line.test ? "--test " : "", line.benchmark ? "--benchmark " : "",
                line.start_from.empty() ? "" : format("--start-from {} ", line.start_from), line.resume,
                version_text());
}

/// Checks that this rank has the same command and configuration as rank 0; otherwise ranks would block on
/// each other forever. Collective. Throws InputError on ranks that differ, after the communication.
void check_same_on_all_ranks(comm::Communicator& communicator, const CommandLine& line,
                             const config::Config& config) {
  const std::string flags = communicator.broadcast_string(flags_text(line), 0);
  const std::string text = communicator.broadcast_string(config.text, 0);
  if (flags != flags_text(line)) {
    throw InputError(format(
        "command differs from rank 0: \"{}\" here and \"{}\" there; start all ranks with the same command",
        excerpt(flags_text(line)), excerpt(flags)));
  }
  if (text == config.text) return;
  const auto differences = config::differences(config, config::parse(text, "rank 0"));
  const auto& first = differences.at(0);
  throw InputError(
      format("configuration differs from rank 0: {} is {} here and {} there; "
             "pass the same file and --set options to all ranks",
             first.key, excerpt(first.first), excerpt(first.second)));
}

/// Throws InputError if the checkpoint to test does not exist.
void check_checkpoint(const std::string& path) {
  if (std::filesystem::is_regular_file(path)) return;
  throw InputError(format(
      "--test: {} does not exist; train first (--train), or set name and run.directory to those of the trained run",
      path));
}

/// The resources of a run, destroyed in reverse order: NCCL before CUDA before MPI.
struct Parts {
  StopFlag stop;
  std::unique_ptr<comm::Communicator> communicator;  // for host memory
  std::unique_ptr<comm::Watchdog> watchdog;          // monitors its ranks
  std::unique_ptr<device::Device> device;
  std::unique_ptr<comm::Communicator> between_gpus;  // if several ranks use GPUs
  std::unique_ptr<run::RunTimeline> timeline;        // with --timeline
  Console console;
  std::optional<StopSignals> signals;
  run::RunState state;
  std::optional<io::DatasetFile> dataset;
  io::DirectoryLock run_folder;  // locked by rank 0 in training
  int item_slices = 1;

  /// Returns the communicator for training.
  comm::Communicator& ranks() { return between_gpus ? *between_gpus : *communicator; }
};

/// Logs version, configuration, backend and ranks.
void log_run_header(Parts& parts, const CommandLine& line, const config::Config& config) {
  Log& log = parts.console.log;
  log.info("vaecf_dist {}: {} into {}", version_text(), line.config, config.options.run_folder());
  for (const std::string& note : config.notes) log.warn("{}", note);
  if (!config.unused.empty()) {
    log.info("a model of type {} does not use {}", to_string(config.options.model.type), join(config.unused));
  }
  log.info("backend: {}", parts.device->facts().description);
  log.info("ranks: {}", parts.ranks().description());
  log.debug("configuration:\n{}", config.text);
  const std::string advice = binding_advice(query_affinity(), parts.communicator->local_size(),
                                            requested_threads(config), parts.device->facts().threads);
  if (!advice.empty()) log.warn("{}", advice);
}

/// Throws InputError if train.deterministic contradicts other options.
void check_deterministic(const config::Config& config) {
  const auto& distributed = config.options.distributed;
  if (!config.backend.deterministic || distributed.strategy != comm::Strategy::parameter_server ||
      distributed.updates != comm::ServerUpdates::asynchronous)
    return;
  throw InputError(
      "train.deterministic: true cannot be combined with distributed.updates: asynchronous; remove one of them");
}

/// Throws InputError if --benchmark is requested for a model without steps.
void check_benchmark(const CommandLine& line, const config::Config& config) {
  const models::ModelType type = config.options.model.type;
  if (!line.benchmark || !models::is_solved(type)) return;
  throw InputError(
      format("--benchmark: measures training steps, but a model of type {} is solved at once; "
             "omit it, the duration of the solution is logged by --train",
             to_string(type)));
}

/// Throws InputError if the output `path` of `option` would overwrite a file that the run reads or writes,
/// existing or not.
void check_output(const std::string& path, const std::string& option, const CommandLine& line,
                  const config::Config& config) {
  namespace fs = std::filesystem;
  const auto& options = config.options;
  io::validate_output_path(path, option, {options.data.file, line.config, line.resume, line.start_from});
  const auto place = [](const std::string& file) { return fs::weakly_canonical(fs::absolute(file)); };
  const fs::path wanted = place(path);
  bool kept = wanted.parent_path() == place(options.checkpoint_folder());
  for (const char* const name : {"config.yaml", "metrics.jsonl", io::DirectoryLock::file_name})
    kept = kept || wanted == place(options.run_folder() + "/" + name);
  kept = kept || (option != "--timeline" && !line.timeline.empty() && wanted == place(line.timeline));
  if (!kept) return;
  throw InputError(
      format("{}: {} belongs to the run and would be overwritten; choose another file", option, path));
}

/// Locks the run folder, because two runs in one folder would mix their checkpoints. Waits 5 seconds for a
/// previous run that is about to end. Throws InputError if the folder stays locked.
void lock_run_folder(Parts& parts, const config::Config& config) {
  parts.run_folder = io::DirectoryLock(config.options.run_folder(), std::chrono::seconds(5));
  if (parts.run_folder.held()) return;
  parts.console.log.warn(
      "{}: this file system does not support locks; make sure that no other run uses this folder",
      config.options.run_folder());
}

/// Sets run.resume_from to the checkpoint that --resume selects, if any. Collective. Throws InputError if
/// the checkpoint is not valid or belongs to another run.
void choose_checkpoint(const CommandLine& line, const config::Config& config, run::Run& run) {
  const auto point = checkpoint::find_resume_point(run, line.resume);
  if (!point) {
    run.log.info("{} contains no valid checkpoint; starting from scratch",
                 config.options.checkpoint_folder());
    return;
  }
  config::require_resumable(config, point->path, point->configuration, run.log);
  run.resume_from = point->path;
}

/// Returns the tasks of a command in order.
std::vector<std::string> tasks_of(const CommandLine& line) {
  std::vector<std::string> tasks;
  if (line.train) tasks.emplace_back("train");
  if (line.test) tasks.emplace_back("test");
  if (line.benchmark) tasks.emplace_back("benchmark");
  return tasks;
}

/// Returns a function that logs the message by which this rank ends the run. All arguments must outlive it.
std::function<void(const std::string&)> failure_log(comm::Communicator& ranks, const config::Config& config,
                                                    const run::RunState& state) {
  return [&](const std::string& message) {
    checkpoint::log_failure(config.options.run_folder(),
                            {state.id, message, ranks.rank(), ranks.host(), ranks.activity().report()});
  };
}

/// Runs the phases of the setup, with the outcome exchanged after each. Collective. Returns the exit code of
/// the first phase that fails on any rank, else ExitCode::done.
ExitCode set_up(Parts& parts, const CommandLine& line, const config::Config& config,
                const TaskResult& parsed) {
  comm::Communicator& ranks = *parts.communicator;
  ExitCode code = agree_on_result(ranks, parsed);
  const auto together = [&](const std::function<void()>& work) {
    if (code == ExitCode::done) code = agree_on_result(ranks, run_and_capture(work));
  };
  together([&] {
    parts.watchdog = std::make_unique<comm::Watchdog>(ranks, config.options.distributed, &parts.stop,
                                                      failure_log(ranks, config, parts.state));
  });
  together([&] { check_same_on_all_ranks(ranks, line, config); });
  together([&] {
    parts.console = make_console(line.verbosity, ranks.rank() == 0);
    if (!line.timeline.empty()) {
      check_output(line.timeline, "--timeline", line, config);
      if (ranks.rank() == 0) io::AtomicOutputFile(line.timeline);  // throws if it cannot be written
    }
    if (!line.per_user.empty()) {
      check_output(line.per_user, "--per-user", line, config);
      if (ranks.rank() == 0) io::AtomicOutputFile(line.per_user);
    }
    parts.device = device::make_device(backend_options_for_rank(config, ranks));
    if (line.test && !line.train && ranks.rank() == 0) check_checkpoint(config.options.best_checkpoint());
  });
  // A separate phase because it communicates: all ranks must reach it.
  together([&] {
    const auto devices = gather_devices(ranks, parts.device->facts());
    const std::string advice = check_devices(devices, config.backend.allow_shared_gpu);
    if (!advice.empty()) parts.console.log.warn("{}", advice);
    const int threads = std::max(requested_threads(config), backend_options_for_rank(config, ranks).threads);
    for (const CheckResult& finding : check_placement(ranks, threads)) {
      if (finding.severity != Severity::ok) parts.console.log.warn("{}; {}", finding.text, finding.advice);
    }
  });
  together([&] { parts.dataset = run::open_dataset(config.options); });
  if (code != ExitCode::done) return code;
  const run::RunContext context{ranks, *parts.device, parts.console.log, *parts.console.progress};
  run::Run run{context, parts.state, config.options, *parts.dataset};
  together([&] {
    parts.item_slices = run::validate_run(run, line.train || line.benchmark);
    check_deterministic(config);
    check_benchmark(line, config);
    if (line.test) run::require_test_users(run.dataset);
  });
  together([&] {
    if (ranks.rank() == 0) run.dataset.require_unique_ids();
  });
  if (line.train) {
    together([&] {
      if (ranks.rank() == 0) lock_run_folder(parts, config);
    });
    if (line.resume != "never") together([&] { choose_checkpoint(line, config, run); });
    if (!line.start_from.empty()) {
      run.start_from = line.start_from;
      together([&] { checkpoint::validate_start(run); });
    }
    together([&] { run::move_previous_run(run); });
    parts.state.resume_from = run.resume_from;  // not the whole state, which the watchdog reads
    parts.state.start_from = run.start_from;
  }
  // In the run folder, the file must not be moved.
  together([&] {
    if (!line.timeline.empty()) parts.timeline = std::make_unique<run::RunTimeline>(ranks, line.timeline);
  });
  return code;
}

/// Creates the NCCL communicator if several ranks use GPUs. Collective. Not a phase of set_up(), because if
/// it fails on one rank, the others may already be blocked in NCCL.
void connect_gpus(Parts& parts, const config::Config& config) {
  if (parts.device->facts().kind != device::DeviceKind::cuda || parts.communicator->size() == 1) return;
  const auto& distributed = config.options.distributed;
  parts.between_gpus = comm::make_nccl_communicator(*parts.communicator, parts.device->facts().id,
                                                    {distributed.algorithm, config.backend.deterministic,
                                                     config.backend.allow_shared_gpu, distributed.timeout});
}

/// Trains, tests and benchmarks as requested. Collective. Sets `phase` to the current task, for error
/// messages. If training is stopped on request, returns ExitCode::stopped; the resumed run does the remaining
/// tasks.
ExitCode work(Parts& parts, const CommandLine& line, const config::Config& config, std::string& phase) {
  const run::RunContext context{parts.ranks(),     *parts.device,
                                parts.console.log, *parts.console.progress,
                                &parts.stop,       run::divide_ranks(parts.ranks(), parts.item_slices)};
  const run::Run run{context, parts.state, config.options, *parts.dataset};
  const bool prints = parts.communicator->rank() == 0;
  const auto& timeline = run.communicator.activity().timeline();
  bool trained = false;
  if (line.train) {
    phase = "training";
    if (parts.communicator->size() == 1) parts.signals->handle_sigint();
    const run::TrainResult result = run::train(run);
    if (result.stopped) {
      parts.signals->ignore_further_signals();
      return ExitCode::stopped;
    }
    trained = !result.complete;
    parts.signals.reset();
  }
  if (line.test) {
    phase = "testing";
    const Timeline::Span span(timeline, Track::run, "test");
    run.communicator.activity().enter(Phase::test);
    const auto result = run::test(run, run.options.best_checkpoint(), line.per_user);
    if (prints) print(run::to_table(result));
  }
  if (line.benchmark) {
    phase = "the benchmark";
    const Timeline::Span span(timeline, Track::run, "benchmark");
    run.communicator.activity().enter(Phase::benchmark);
    const auto result = run::benchmark(run);
    if (prints) print(run::to_table(result));
  }
  if (!trained) run::log_done(run);
  return ExitCode::done;
}

}  // namespace

ExitCode run_on_ranks(const CommandLine& line, const TaskResult& usage) {
  config::Config config;
  TaskResult parsed = usage;
  Parts parts;
  if (usage.ok()) {
    // Before loading, so that a request during loading takes effect at the first step.
    if (line.train) parts.signals.emplace(parts.stop);
    parsed = run_and_capture([&] {
      config = config::load(line.config, line.overrides);
      parts.state = {config.text, version_text(), commit, "", tasks_of(line), "", ""};
      if (const char* id = std::getenv("VAECF_RUN_ID")) parts.state.id = id;
    });
  }
  parts.communicator = make_communicator(config.options.distributed);
  const ExitCode ready = set_up(parts, line, config, parsed);
  if (ready != ExitCode::done) return ready;

  std::string phase = "connecting the GPUs";
  ExitCode ended = ExitCode::done;
  const TaskResult outcome = run_and_capture([&] {
    connect_gpus(parts, config);
    log_run_header(parts, line, config);
    if (parts.timeline) parts.timeline->start(*parts.communicator);
    ended = work(parts, line, config, phase);
    if (!parts.timeline) return;
    phase = "writing the timeline";
    parts.communicator->activity().enter(Phase::checkpoint);
    parts.timeline->write(*parts.communicator, parts.console.log);
  });
  if (outcome.ok()) return ended;
  parts.console.progress->end();
  return abort_all_ranks(parts.ranks(), outcome, phase, failure_log(parts.ranks(), config, parts.state));
}

}  // namespace vaecf::app
