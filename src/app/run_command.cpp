#include <vaecf/base/text.hpp>
#include <vaecf/base/version.hpp>
#include <vaecf/checkpoint/resume_point.hpp>
#include <vaecf/checkpoint/run_failure.hpp>
#include <vaecf/checkpoint/run_folder.hpp>
#include <vaecf/checkpoint/start_point.hpp>
#include <vaecf/context/context.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/io/file_lock.hpp>
#include <vaecf/run/benchmark.hpp>
#include <vaecf/run/events.hpp>
#include <vaecf/run/item_slices.hpp>
#include <vaecf/run/plan.hpp>
#include <vaecf/run/previous_run.hpp>
#include <vaecf/run/run_timeline.hpp>
#include <vaecf/run/seeds.hpp>
#include <vaecf/run/test.hpp>
#include <vaecf/run/train.hpp>
#include <vaecf/run/validate.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <random>
#include <tuple>
#include <utility>

#include "app/command_line.hpp"
#include "app/console.hpp"
#include "app/cores.hpp"
#include "app/doctor/check_result.hpp"
#include "app/doctor/placement.hpp"
#include "app/rank_devices.hpp"
#include "app/rank_session.hpp"
#include "app/run_arguments.hpp"
#include "app/stop_signals.hpp"
#include "app/task_result.hpp"

namespace vaecf::app {
namespace {

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
  throw InputError(format(
      "configuration differs from rank 0: {} is {} here and {} there; pass the same file and --set options to all ranks",
      first.key, excerpt(first.first), excerpt(first.second)));
}

/// A run of this start: the only one, or one of --seeds.
struct PlannedRun {
  config::Config config;
  run::RunState state;
  std::string per_user;           ///< file for the test metrics of each user; empty: none
  io::DirectoryLock folder = {};  ///< locked by rank 0 in training
};

/// One start of the program, with what it holds on this rank.
struct Start {
  const CommandLine& line;
  const RunArguments& arguments;
  StopFlag stop = {};
  std::vector<PlannedRun> runs = {};     // differ by name and train.seed only
  std::atomic<std::size_t> current = 0;  // index of the run at work
  std::optional<RankSession> session = {};
  std::unique_ptr<run::RunTimeline> timeline = {};  // with --timeline
  std::optional<StopSignals> signals = {};
  std::optional<io::DatasetFile> dataset = {};
  int item_slices = 1;
};

/// Returns the id of this start of the program: VAECF_RUN_ID, or 16 random hexadecimal digits.
std::string start_id() {
  const char* given = std::getenv("VAECF_RUN_ID");
  if (given != nullptr && *given != '\0') return given;
  std::random_device random;
  return format("{:08x}{:08x}", random(), random());
}

/// Plans the run of `config`, or those of --seeds.
void plan_runs(Start& start, const config::Config& config) {
  const RunArguments& arguments = start.arguments;
  run::RunState state{"", version_number(), source_commit(), start_id(), {}, "", ""};
  for (const auto& [wanted, task] : {std::pair(arguments.train, "train"), std::pair(arguments.test, "test"),
                                     std::pair(arguments.benchmark, "benchmark")})
    if (wanted) state.tasks.emplace_back(task);
  const std::string& per_user = arguments.per_user;
  if (arguments.seeds == 0) start.runs.push_back({config, state, per_user});
  for (int number = 1; number <= arguments.seeds; ++number) {
    start.runs.push_back(
        {with_seed(config, number), state, per_user.empty() ? "" : with_number(per_user, number)});
  }
  for (PlannedRun& planned : start.runs) planned.state.configuration_text = planned.config.text;
}

void log_run_header(Start& start) {
  RankSession& session = *start.session;
  const config::Config& config = start.runs.front().config;
  Log& log = session.console.log;
  const std::string last =
      start.runs.size() == 1 ? "" : " to " + start.runs.back().config.options.run_folder();
  log.info("vaecf_dist {}: {} {} {}{}", version_text(), start.line.config,
           start.arguments.plan ? "would train into" : "into", config.options.run_folder(), last);
  for (const std::string& note : config.notes) log.warn("{}", note);
  if (const auto unused = unused_keys(config, config::Command::train); !unused.empty()) {
    log.warn("a model of type {} does not use {} with the other settings; remove what has no effect",
             to_string(config.options.model.type), join(unused));
  }
  log.info("backend: {}", session.device->facts().description);
  log.info("ranks: {}", session.ranks().description());
  log.debug("configuration:\n{}", config.text);
  const std::string advice = binding_advice(query_affinity(), session.hosts().local_size(),
                                            requested_threads(config), session.device->facts().threads);
  if (!advice.empty()) log.warn("{}", advice);
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
  const checkpoint::RunFolder folder{options.run_folder()};
  bool kept = wanted.parent_path() == place(folder.checkpoints()) ||
              (option != "--timeline" && !arguments.timeline.empty() && wanted == place(arguments.timeline));
  for (const std::string& file :
       {folder.configuration_file(), folder.log(), folder.path + "/" + io::DirectoryLock::file_name})
    kept = kept || wanted == place(file);
  if (!kept) return;
  throw InputError(
      format("{}: {} belongs to the run and would be overwritten; choose another file", option, path));
}

/// Makes and locks the folders of all runs, because two runs in one folder would mix their checkpoints. Waits
/// 5 seconds for a previous run that is about to end. Throws InputError if a folder stays locked.
void lock_run_folders(Start& start) {
  for (PlannedRun& planned : start.runs) {
    const checkpoint::RunFolder folder{planned.config.options.run_folder()};
    checkpoint::prepare_folder(folder.path);
    planned.folder = io::DirectoryLock(folder.path, std::chrono::seconds(5));
    // Only now, because a run that holds the lock may be moving its previous checkpoints.
    checkpoint::prepare_folder(folder.checkpoints());
    if (planned.folder.held()) continue;
    start.session->console.log.warn(
        "{}: this file system does not support locks; make sure that no other run uses this folder",
        folder.path);
  }
}

run::Run make_run(const Start& start, const PlannedRun& planned, const Context& context) {
  return {context, planned.state, planned.config.options, *start.dataset};
}

/// Sets run.start_from, or run.resume_from to the checkpoint that --resume selects, if any. Collective.
/// Throws InputError if the checkpoint is not valid or belongs to another run.
void choose_checkpoint(const RunArguments& arguments, const config::Config& config, run::Run& run) {
  if (!arguments.start_from.empty()) {
    run.start_from = arguments.start_from;
    checkpoint::validate_start(run, run.options.model, run.dataset, run.start_from);
  }
  if (arguments.resume == "never") return;
  const auto point = checkpoint::find_resume_point(run, run.folder(), run.dataset, arguments.resume);
  if (!point)
    return run.log.info("{} contains no valid checkpoint; starting from scratch", run.folder().checkpoints());
  config::require_resumable(config, point->path, point->configuration, run.log);
  run.resume_from = point->path;
}

/// Locks the folders of all runs, and prepares them for training: chooses all checkpoints, then moves earlier
/// runs. Collective.
void prepare_run_folders(Start& start, const Context& context) {
  RankSession& session = *start.session;
  session.together([&] {
    if (context.communicator.rank() == 0) lock_run_folders(start);
  });
  const auto for_each_run =
      [&](const std::function<void(const config::Config& config, run::Run& run)>& prepare) {
        for (PlannedRun& planned : start.runs) {
          run::Run run = make_run(start, planned, context);
          session.together([&] { prepare(planned.config, run); });
          planned.state.resume_from = run.resume_from;  // not the whole state, which the watchdog reads
          planned.state.start_from = run.start_from;
        }
      };
  for_each_run(
      [&](const config::Config& config, run::Run& run) { choose_checkpoint(start.arguments, config, run); });
  for_each_run([](const config::Config&, run::Run& run) { run::move_previous_run(run); });
}

/// Checks the arguments that name files, and makes the console and the device. Throws InputError if
/// the checkpoint to test does not exist.
void open_rank(Start& start, const config::Config& config) {
  RankSession& session = *start.session;
  const bool root = session.hosts().rank() == 0;
  session.console = make_console(start.line.verbosity, root);
  const RunArguments& arguments = start.arguments;
  const auto check = [&](const char* option, const std::string& path, const config::Config& of_run) {
    if (path.empty()) return;
    check_output(path, option, start, of_run);
    if (root) io::AtomicOutputFile{path};  // throws if it cannot be written
  };
  check("--timeline", arguments.timeline, config);
  for (const PlannedRun& planned : start.runs) check("--per-user", planned.per_user, planned.config);
  session.device = device::make_device(backend_options_for_rank(config, session.hosts()));
  if (!arguments.test || arguments.train || !root) return;
  for (const PlannedRun& planned : start.runs) {
    const std::string tested = checkpoint::RunFolder{planned.config.options.run_folder()}.best();
    if (std::filesystem::is_regular_file(tested)) continue;
    throw InputError(format(
        "--test: {} does not exist; train first (--train), or set name and run.directory to those of the trained run",
        tested));
  }
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
  const std::string id = ranks.broadcast_string(start.runs.front().state.id, 0);
  for (PlannedRun& planned : start.runs) planned.state.id = id;
  session.watch(config.options.distributed, &start.stop, [&](FailureCode code, const std::string& message) {
    const PlannedRun& planned = start.runs[start.current];
    if (arguments.plan) return;  // which writes nothing
    checkpoint::log_failure(
        {planned.config.options.run_folder()},
        {planned.state.id, code, message, ranks.rank(), ranks.host(), ranks.activity().report()});
  });
  session.together([&] { check_same_on_all_ranks(ranks, arguments, config); });
  session.together([&] { run::validate_ranks(config.options, ranks.size()); });
  session.together([&] { open_rank(start, config); });
  // A separate phase because it communicates: all ranks must reach it.
  session.together([&] { check_ranks(session, config); });
  session.together([&] { start.dataset = run::open_dataset(config.options, ranks); });
  if (session.code() != ExitCode::done) return;
  const Context context{ranks, *session.device, session.console.log, *session.console.progress};
  session.together([&] {
    start.item_slices =
        run::validate_run(make_run(start, start.runs.front(), context),
                          arguments.train || arguments.benchmark || arguments.plan, !arguments.plan);
    if (arguments.test) run::require_test_users(*start.dataset);
  });
  session.together([&] {
    if (ranks.rank() == 0) start.dataset->require_unique_ids();
  });
  if (arguments.train) prepare_run_folders(start, context);
  // In the run folder, the file must not be moved.
  session.together([&] {
    if (!arguments.timeline.empty())
      start.timeline = std::make_unique<run::RunTimeline>(ranks, arguments.timeline);
  });
}

/// Plans, trains, tests and benchmarks a run as requested, and adds its test to `tests`. Collective. Sets
/// `phase` to the current task, for error messages. If training is stopped on request, returns
/// ExitCode::stopped; the resumed run does the remaining tasks.
ExitCode work_on(const PlannedRun& planned, Start& start, const Context& context, std::string& phase,
                 std::vector<run::SeedTest>& tests) {
  const RunArguments& arguments = start.arguments;
  const run::Run run = make_run(start, planned, context);
  const bool prints = start.session->hosts().rank() == 0;
  const auto& timeline = run.communicator.activity().timeline();
  if (arguments.plan) {
    phase = "the plan";
    run.communicator.activity().enter(Phase::benchmark);
    const std::string text = run::plan(run);
    if (prints) print(text);
    return ExitCode::done;
  }
  if (!arguments.train) run::append_event(run, run::start_event(run));
  if (arguments.train) {
    phase = "training";
    if (start.session->hosts().size() == 1) start.signals->handle_sigint();
    const run::TrainResult result = run::train(run);
    if (result.stopped) {
      start.signals->ignore_further_signals();
      return ExitCode::stopped;
    }
    if (result.complete) run::log_done(run);
    if (&planned == &start.runs.back()) start.signals.reset();
  }
  if (arguments.test) {
    phase = "testing";
    const Timeline::Span span(timeline, Track::run, "test");
    run.communicator.activity().enter(Phase::test);
    const auto result = run::test(run, run.folder().best(), planned.per_user);
    if (prints) print(run::to_table(result));
    tests.push_back({run.options.train.seed, result.model.users, result.model.metrics});
  }
  if (arguments.benchmark) {
    phase = "the benchmark";
    const Timeline::Span span(timeline, Track::run, "benchmark");
    run.communicator.activity().enter(Phase::benchmark);
    const auto result = run::benchmark(run);
    if (prints) print(run::to_table(result));
  }
  return ExitCode::done;
}

/// Works on one run after the other, as work_on() does, and prints the table of --seeds. Collective.
ExitCode work(Start& start, std::string& phase) {
  RankSession& session = *start.session;
  const Context context{session.ranks(),     *session.device,
                        session.console.log, *session.console.progress,
                        &start.stop,         run::divide_ranks(session.ranks(), start.item_slices)};
  const std::size_t count = start.runs.size();
  std::vector<run::SeedTest> tests;
  for (std::size_t i = 0; i < count; ++i) {
    start.current = i;
    const PlannedRun& planned = start.runs[i];
    const auto& options = planned.config.options;
    if (count > 1)
      context.log.info("run {} of {}: {}, train.seed {}", i + 1, count, options.name, options.train.seed);
    const ExitCode ended = work_on(planned, start, context, phase, tests);
    if (ended != ExitCode::done) return ended;
  }
  if (tests.size() > 1 && session.hosts().rank() == 0) print(run::to_table(tests));
  return ExitCode::done;
}

/// Runs --train, --test, --benchmark and --plan on all ranks.
ExitCode run_on_ranks(const CommandLine& line, const RunArguments& given) {
  if ((given.print_config || !given.print_values.empty()) && !line.config.empty()) {
    const config::Config config = config::load(line.config, line.overrides);
    // launch/train asks for the run that is finished last.
    print(printed_text(given.seeds > 0 ? with_seed(config, given.seeds) : config, given.print_values));
    return ExitCode::done;
  }
  RunArguments arguments = given;
  comm::DistributedOptions distributed;
  Start start{line, arguments};
  const TaskResult parsed = run_and_capture([&] {
    complete_arguments(line, arguments);
    // Before loading, so that a request during loading takes effect at the first step.
    if (arguments.train) start.signals.emplace(start.stop);
    const config::Config config = config::load(line.config, line.overrides);
    distributed = config.options.distributed;
    check_combinations(arguments, config);
    plan_runs(start, config);
  });
  RankSession& session = start.session.emplace(make_communicator(distributed));
  if (session.together(parsed) != ExitCode::done) return session.code();
  const config::Config& config = start.runs.front().config;
  set_up(start, config);
  return session.work(
      [&](std::string& phase) {
        session.connect_gpus(config);
        log_run_header(start);
        if (start.timeline) start.timeline->start(session.hosts());
        const ExitCode ended = work(start, phase);
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
  line.command = "run";
  line.run = with(shared, run_on_ranks);
  add_run_arguments(app, line, *shared);
}

}  // namespace vaecf::app
