#include <vaecf/base/text.hpp>
#include <vaecf/checkpoint/run_folder.hpp>
#include <vaecf/comm/nccl.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/models/model.hpp>
#include <vaecf/run/train.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <tuple>
#include <utility>

#include "app/command_line.hpp"
#include "app/console.hpp"
#include "app/doctor/doctor.hpp"
#include "app/rank_session.hpp"
#include "app/version.hpp"

namespace vaecf::app {
namespace {

/// Arguments of the program without a command.
struct RunArguments {
  bool print_config = false;
  bool train = false;
  bool test = false;
  bool benchmark = false;
  std::string resume = "never";  ///< never, auto, or a checkpoint's path
  std::string start_from;        ///< checkpoint with the initial weights; empty: random weights
  std::string timeline;          ///< file for the trace of all ranks; empty: none
  std::string per_user;          ///< file for the test metrics of each user; empty: none
};

/// Sets the tasks that follow from the arguments. Throws InputError if arguments contradict each other.
void complete_arguments(const CommandLine& line, RunArguments& arguments) {
  if (line.config.empty()) throw InputError("a configuration or a command is missing; see vaecf_dist --help");
  if (!arguments.train && !arguments.test && !arguments.benchmark) arguments.train = arguments.test = true;
  if (!arguments.train && arguments.resume != "never" && arguments.resume != "auto") {
    throw InputError(format(
        "--resume {}: requires --train; --test always uses best.h5 of the run folder (see vaecf_dist --help)",
        arguments.resume));
  }
  if (!arguments.train && !arguments.start_from.empty())
    throw InputError(
        format("--start-from {}: requires --train (see vaecf_dist --help)", arguments.start_from));
  if (!arguments.per_user.empty() && !arguments.test) {
    throw InputError(
        format("--per-user {}: requires a test; add --test (see vaecf_dist --help)", arguments.per_user));
  }
}

/// Returns what must be the same on all ranks: the flags of the run and the version.
std::string flags_text(const RunArguments& arguments) {
  return format("{}{}{}{}{}{}--resume {} of {}", arguments.timeline.empty() ? "" : "--timeline ",
                arguments.per_user.empty() ? "" : "--per-user ", arguments.train ? "--train " : "",
                arguments.test ? "--test " : "", arguments.benchmark ? "--benchmark " : "",
                arguments.start_from.empty() ? "" : format("--start-from {} ", arguments.start_from),
                arguments.resume, version_text());
}

/// Checks that this rank has the same command and configuration as rank 0; otherwise ranks would block on
/// each other forever. Collective. Throws InputError on ranks that differ, after the communication.
void check_same_on_all_ranks(comm::Communicator& communicator, const RunArguments& arguments,
                             const config::Config& config) {
  const std::string flags = communicator.broadcast_string(flags_text(arguments), 0);
  const std::string text = communicator.broadcast_string(config.text, 0);
  if (flags != flags_text(arguments)) {
    throw InputError(format(
        "command differs from rank 0: \"{}\" here and \"{}\" there; start all ranks with the same command",
        excerpt(flags_text(arguments)), excerpt(flags)));
  }
  if (text == config.text) return;
  const auto differences = config::differences(config, config::parse(text, "rank 0"));
  const auto& first = differences.at(0);
  throw InputError(
      format("configuration differs from rank 0: {} is {} here and {} there; "
             "pass the same file and --set options to all ranks",
             first.key, excerpt(first.first), excerpt(first.second)));
}

/// One start of the program, with what it holds on this rank.
struct Start {
  const CommandLine& line;
  const RunArguments& arguments;
  StopFlag stop = {};
  run::RunState state = {};
  std::optional<RankSession> session = {};
  std::unique_ptr<run::RunTimeline> timeline = {};  // with --timeline
  std::optional<StopSignals> signals = {};
  std::optional<io::DatasetFile> dataset = {};
  io::DirectoryLock run_folder = {};  // locked by rank 0 in training
  int item_slices = 1;
};

void log_run_header(RankSession& session, const std::string& path, const config::Config& config) {
  Log& log = session.console.log;
  log.info("vaecf_dist {}: {} into {}", version_text(), path, config.options.run_folder());
  for (const std::string& note : config.notes) log.warn("{}", note);
  if (!config.unused.empty())
    log.info("a model of type {} does not use {}", to_string(config.options.model.type), join(config.unused));
  log.info("backend: {}", session.device->facts().description);
  log.info("ranks: {}", session.ranks().description());
  log.debug("configuration:\n{}", config.text);
  const std::string advice = binding_advice(query_affinity(), session.hosts().local_size(),
                                            requested_threads(config), session.device->facts().threads);
  if (!advice.empty()) log.warn("{}", advice);
}

/// Throws InputError if a key or an argument contradicts another key.
void check_combinations(const RunArguments& arguments, const config::Config& config) {
  const auto& distributed = config.options.distributed;
  if (config.backend.deterministic && distributed.strategy == comm::StrategyKind::parameter_server &&
      distributed.updates == comm::ServerUpdates::asynchronous)
    throw InputError(
        "train.deterministic: true cannot be combined with distributed.updates: asynchronous; remove one of them");
  const models::ModelType type = config.options.model.type;
  if (arguments.benchmark && models::is_solved(type))
    throw InputError(
        format("--benchmark: measures training steps, but a model of type {} is solved at once; "
               "omit it, the duration of the solution is logged by --train",
               to_string(type)));
}

/// Throws InputError if the output `path` of `option` would overwrite a file that the run reads or writes,
/// existing or not.
void check_output(const std::string& path, const std::string& option, const Start& start,
                  const config::Config& config) {
  const auto& [line, arguments] = std::tie(start.line, start.arguments);
  namespace fs = std::filesystem;
  const auto& options = config.options;
  io::validate_output_path(path, option,
                           {options.data.file, line.config, arguments.resume, arguments.start_from});
  const auto place = [](const std::string& file) { return fs::weakly_canonical(fs::absolute(file)); };
  const fs::path wanted = place(path);
  bool kept = wanted.parent_path() == place(options.checkpoint_folder());
  for (const char* const name : {"config.yaml", "metrics.jsonl", io::DirectoryLock::file_name})
    kept = kept || wanted == place(options.run_folder() + "/" + name);
  kept =
      kept || (option != "--timeline" && !arguments.timeline.empty() && wanted == place(arguments.timeline));
  if (!kept) return;
  throw InputError(
      format("{}: {} belongs to the run and would be overwritten; choose another file", option, path));
}

/// Locks the run folder, because two runs in one folder would mix their checkpoints. Waits 5 seconds for a
/// previous run that is about to end. Throws InputError if the folder stays locked.
void lock_run_folder(Start& start, const config::Config& config) {
  start.run_folder = io::DirectoryLock(config.options.run_folder(), std::chrono::seconds(5));
  if (start.run_folder.held()) return;
  start.session->console.log.warn(
      "{}: this file system does not support locks; make sure that no other run uses this folder",
      config.options.run_folder());
}

/// Sets run.resume_from to the checkpoint that --resume selects, if any. Collective. Throws InputError if
/// the checkpoint is not valid or belongs to another run.
void choose_checkpoint(const std::string& resume, const config::Config& config, run::Run& run) {
  const auto point = checkpoint::find_resume_point(run, resume);
  if (!point) {
    run.log.info("{} contains no valid checkpoint; starting from scratch",
                 config.options.checkpoint_folder());
    return;
  }
  config::require_resumable(config, point->path, point->configuration, run.log);
  run.resume_from = point->path;
}

/// Checks the arguments that name files, and makes the console and the device. Throws InputError if
/// the checkpoint to test does not exist.
void open_rank(Start& start, const config::Config& config) {
  RankSession& session = *start.session;
  const bool root = session.hosts().rank() == 0;
  session.console = make_console(start.line.verbosity, root);
  const RunArguments& arguments = start.arguments;
  for (const auto& [option, path] :
       {std::pair("--timeline", arguments.timeline), std::pair("--per-user", arguments.per_user)}) {
    if (path.empty()) continue;
    check_output(path, option, start, config);
    if (root) io::AtomicOutputFile{path};  // throws if it cannot be written
  }
  session.device = device::make_device(backend_options_for_rank(config, session.hosts()));
  const std::string tested = config.options.best_checkpoint();
  if (!arguments.test || arguments.train || !root || std::filesystem::is_regular_file(tested)) return;
  throw InputError(format(
      "--test: {} does not exist; train first (--train), or set name and run.directory to those of the trained run",
      tested));
}

/// Checks that the devices of all ranks can work together, and warns of bad placement. Collective.
void check_ranks(RankSession& session, const config::Config& config) {
  comm::Communicator& ranks = session.hosts();
  const auto devices = gather_devices(ranks, session.device->facts());
  const std::string advice = check_devices(devices, config.backend.allow_shared_gpu);
  if (!advice.empty()) session.console.log.warn("{}", advice);
  const int threads = std::max(requested_threads(config), backend_options_for_rank(config, ranks).threads);
  for (const CheckResult& finding : check_placement(ranks, threads))
    if (finding.severity != Severity::ok) session.console.log.warn("{}; {}", finding.text, finding.advice);
}

void set_up(Start& start, const config::Config& config) {
  RankSession& session = *start.session;
  const RunArguments& arguments = start.arguments;
  comm::Communicator& ranks = session.hosts();
  const bool root = ranks.rank() == 0;
  session.watch(config.options.distributed, &start.stop, [&](const std::string& message) {
    checkpoint::log_failure(config.options.run_folder(),
                            {start.state.id, message, ranks.rank(), ranks.host(), ranks.activity().report()});
  });
  session.together([&] { check_same_on_all_ranks(ranks, arguments, config); });
  session.together([&] { open_rank(start, config); });
  // A separate phase because it communicates: all ranks must reach it.
  session.together([&] { check_ranks(session, config); });
  session.together([&] { start.dataset = run::open_dataset(config.options); });
  if (session.code() != ExitCode::done) return;
  const run::RunContext context{ranks, *session.device, session.console.log, *session.console.progress};
  run::Run run{context, start.state, config.options, *start.dataset};
  session.together([&] {
    start.item_slices = run::validate_run(run, arguments.train || arguments.benchmark);
    check_combinations(arguments, config);
    if (arguments.test) run::require_test_users(run.dataset);
  });
  session.together([&] {
    if (root) run.dataset.require_unique_ids();
  });
  if (arguments.train) {
    session.together([&] {
      if (root) lock_run_folder(start, config);
    });
    if (arguments.resume != "never")
      session.together([&] { choose_checkpoint(arguments.resume, config, run); });
    if (!arguments.start_from.empty()) {
      run.start_from = arguments.start_from;
      session.together([&] { checkpoint::validate_start(run); });
    }
    session.together([&] { run::move_previous_run(run); });
    start.state.resume_from = run.resume_from;  // not the whole state, which the watchdog reads
    start.state.start_from = run.start_from;
  }
  // In the run folder, the file must not be moved.
  session.together([&] {
    if (!arguments.timeline.empty())
      start.timeline = std::make_unique<run::RunTimeline>(ranks, arguments.timeline);
  });
}

/// Creates the NCCL communicator if several ranks use GPUs. Collective. Not a phase of set_up(), because if
/// it fails on one rank, the others may already be blocked in NCCL.
void connect_gpus(RankSession& session, const config::Config& config) {
  const device::DeviceFacts device = session.device->facts();
  if (device.kind != device::DeviceKind::cuda || session.hosts().size() == 1) return;
  const auto& distributed = config.options.distributed;
  session.between_gpus = comm::make_nccl_communicator(session.hosts(), device.id,
                                                      {distributed.algorithm, config.backend.deterministic,
                                                       config.backend.allow_shared_gpu, distributed.timeout});
}

/// Trains, tests and benchmarks as requested. Collective. Sets `phase` to the current task, for error
/// messages. If training is stopped on request, returns ExitCode::stopped; the resumed run does the remaining
/// tasks.
ExitCode work(Start& start, const config::Config& config, std::string& phase) {
  RankSession& session = *start.session;
  const RunArguments& arguments = start.arguments;
  const run::RunContext context{session.ranks(),     *session.device,
                                session.console.log, *session.console.progress,
                                &start.stop,         run::divide_ranks(session.ranks(), start.item_slices)};
  const run::Run run{context, start.state, config.options, *start.dataset};
  const bool prints = session.hosts().rank() == 0;
  const auto& timeline = run.communicator.activity().timeline();
  bool trained = false;
  if (arguments.train) {
    phase = "training";
    if (session.hosts().size() == 1) start.signals->handle_sigint();
    const run::TrainResult result = run::train(run);
    if (result.stopped) {
      start.signals->ignore_further_signals();
      return ExitCode::stopped;
    }
    trained = !result.complete;
    start.signals.reset();
  }
  if (arguments.test) {
    phase = "testing";
    const Timeline::Span span(timeline, Track::run, "test");
    run.communicator.activity().enter(Phase::test);
    const auto result = run::test(run, run.options.best_checkpoint(), arguments.per_user);
    if (prints) print(run::to_table(result));
  }
  if (arguments.benchmark) {
    phase = "the benchmark";
    const Timeline::Span span(timeline, Track::run, "benchmark");
    run.communicator.activity().enter(Phase::benchmark);
    const auto result = run::benchmark(run);
    if (prints) print(run::to_table(result));
  }
  if (!trained) run::log_done(run);
  return ExitCode::done;
}

/// Runs --train, --test and --benchmark on all ranks.
ExitCode run_on_ranks(const CommandLine& line, const RunArguments& given) {
  if (given.print_config && !line.config.empty()) {
    print(config::dump(config::load(line.config, line.overrides)));
    return ExitCode::done;
  }
  RunArguments arguments = given;
  config::Config config;
  Start start{line, arguments};
  const TaskResult parsed = run_and_capture([&] {
    complete_arguments(line, arguments);
    // Before loading, so that a request during loading takes effect at the first step.
    if (arguments.train) start.signals.emplace(start.stop);
    config = config::load(line.config, line.overrides);
    start.state = {config.text, version_text(), commit, "", {}, "", ""};
    for (const auto& [wanted, task] : {std::pair(arguments.train, "train"), std::pair(arguments.test, "test"),
                                       std::pair(arguments.benchmark, "benchmark")})
      if (wanted) start.state.tasks.emplace_back(task);
    if (const char* id = std::getenv("VAECF_RUN_ID")) start.state.id = id;
  });
  RankSession& session = start.session.emplace(make_communicator(config.options.distributed));
  session.together(parsed);
  set_up(start, config);
  return session.work(
      [&](std::string& phase) {
        connect_gpus(session, config);
        log_run_header(session, line.config, config);
        if (start.timeline) start.timeline->start(session.hosts());
        const ExitCode ended = work(start, config, phase);
        if (!start.timeline) return ended;
        phase = "writing the timeline";
        session.hosts().activity().enter(Phase::checkpoint);
        start.timeline->write(session.hosts(), session.console.log);
        return ended;
      },
      "connecting the GPUs");
}

}  // namespace

void add_run(CLI::App& app, CommandLine& line) {
  const auto shared = std::make_shared<RunArguments>();
  RunArguments& arguments = *shared;
  line.command = "run";
  line.run = with(shared, run_on_ranks);
  app.add_flag("--print-config", arguments.print_config,
               "print the configuration with every key as resolved, and do nothing else");
  add_config(app, line, false);
  app.add_flag(
      "--train", arguments.train,
      "train the model and keep the best checkpoint; an earlier run of this name is moved to NAME.1, NAME.2, ...");
  app.add_flag("--test", arguments.test,
               "test the best checkpoint; without --train, --test and --benchmark: train, then test");
  app.add_option("--per-user", arguments.per_user,
                 "with --test: also write the metrics of each test user to an HDF5 file")
      ->type_name("FILE.h5");
  app.add_flag("--benchmark", arguments.benchmark, "measure the speed of training steps");
  auto* resume =
      app.add_option(
             "--resume", arguments.resume,
             "auto: resume from the newest valid checkpoint of the run folder, if any; never: start from scratch; FILE: resume from this checkpoint")
          ->type_name("auto|never|FILE")
          ->capture_default_str();
  app.add_option(
         "--start-from", arguments.start_from,
         "new run with the weights of this checkpoint, matched by item id; new items get random weights, and optimizer, step and epoch start anew")
      ->type_name("CHECKPOINT")
      ->excludes(resume);
  app.add_option("--timeline", arguments.timeline,
                 "write a trace of all ranks in Chrome trace format (Perfetto, chrome://tracing)")
      ->type_name("FILE");
  add_verbosity(app, line);
}

}  // namespace vaecf::app
