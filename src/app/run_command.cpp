#include <vaecf/base/format.hpp>
#include <vaecf/comm/nccl.hpp>
#include <vaecf/comm/watchdog.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/io/locks.hpp>
#include <vaecf/io/output_file.hpp>
#include <vaecf/train/run_timeline.hpp>
#include <vaecf/train/session.hpp>

#include "app/commands.hpp"
#include "app/progress.hpp"
#include "app/ranks.hpp"
#include "app/stop_signals.hpp"
#include "app/version.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>

namespace vaecf::app {
namespace {

std::string flags_text(const CommandLine& line) {
  return format("{}{}{}{}--resume {} of {}", line.timeline.empty() ? "" : "--timeline ",
                line.train ? "--train " : "", line.test ? "--test " : "",
                line.benchmark ? "--benchmark " : "", line.resume, version_text());
}

/// Ranks that differ in what they are to do would wait for each other for ever: all must agree with rank 0.
/// Every rank calls it; the exchange comes before any throw.
void check_same_on_all_ranks(comm::Communicator& communicator, const CommandLine& line,
                             const config::Config& config) {
  const std::string flags = communicator.broadcast_text(flags_text(line), 0);
  const std::string text = communicator.broadcast_text(config.session.configuration_text, 0);
  if (flags != flags_text(line)) {
    throw InputError(format("its command is \"{}\", that of rank 0 \"{}\"; start the same on all ranks",
                            flags_text(line), flags));
  }
  if (text == config.session.configuration_text) return;
  const auto differences = config::differences(config, config::parse(text, "rank 0"));
  const auto& first = differences.at(0);
  throw InputError(
      format("its configuration differs from that of rank 0: {} is {} here and {} there; "
             "give all ranks the same file and the same --set",
             first.key, first.first, first.second));
}

void check_checkpoint(const std::string& path) {
  if (std::filesystem::is_regular_file(path)) return;
  throw InputError(format(
      "--test needs {}, which is not there: train first (--train), or set name and run.directory to those of the trained run",
      path));
}

/// The parts of a run, destroyed in reverse order: NCCL before CUDA before MPI.
struct Parts {
  StopFlag stop;
  std::unique_ptr<comm::Communicator> communicator;  // of host memory
  std::unique_ptr<comm::Watchdog> watchdog;          // over its ranks
  std::unique_ptr<train::Engine> engine;
  std::unique_ptr<comm::Communicator> between_gpus;  // where several ranks compute on GPUs
  std::unique_ptr<train::RunTimeline> timeline;      // where one is wanted
  Voice voice;
  std::optional<StopSignals> signals;
  io::FolderLock run_folder;  // rank 0's, while it trains

  comm::Communicator& ranks() { return between_gpus ? *between_gpus : *communicator; }
};

void introduce(Parts& parts, const CommandLine& line, const config::Config& config) {
  Log& log = parts.voice.log;
  log.info("vaecf_dist {}: {} into {}", version_text(), line.config, config.session.run_folder());
  for (const std::string& note : config.notes) log.warn("{}", note);
  log.info("backend: {}", parts.engine->facts().description);
  log.info("ranks: {}", parts.ranks().description());
  log.debug("configuration:\n{}", config.session.configuration_text);
  const std::string advice = binding_advice(look_at_cores(), parts.communicator->local_size(),
                                            wanted_threads(config), parts.engine->facts().threads);
  if (!advice.empty()) log.warn("{}", advice);
}

void check_deterministic(const config::Config& config) {
  const auto& distributed = config.session.distributed;
  if (!config.backend.deterministic || distributed.strategy != comm::Strategy::parameter_server ||
      distributed.updates != comm::ServerUpdates::asynchronous)
    return;
  throw InputError(
      "train.deterministic: true asks for the same run every time, and distributed.updates: asynchronous takes gradients as they come: leave one of them out");
}

/// A timeline may not take the place of a file that the run reads, or keeps, be it not there yet.
void check_timeline(const CommandLine& line, const config::Config& config) {
  namespace fs = std::filesystem;
  const auto& session = config.session;
  io::check_output(line.timeline, "--timeline", {session.data.file, line.config, line.resume});
  const auto place = [](const std::string& path) { return fs::weakly_canonical(fs::absolute(path)); };
  const fs::path wanted = place(line.timeline);
  bool kept = wanted.parent_path() == place(session.checkpoint_folder());
  for (const char* const name : {"config.yaml", "metrics.jsonl", ".lock"})
    kept = kept || wanted == place(session.run_folder() + "/" + name);
  if (!kept) return;
  throw InputError(
      format("--timeline is {}, which the run keeps for itself, and would be replaced; name another file",
             line.timeline));
}

/// Two runs in one folder would take each other's checkpoints for their own. The last one may be about to
/// end.
void keep_others_out(Parts& parts, const config::Config& config) {
  parts.run_folder = io::FolderLock(config.session.run_folder(), std::chrono::seconds(5));
  if (parts.run_folder.held()) return;
  parts.voice.log.warn("{}: the file system has no locks: see to it that no other run works in this folder",
                       config.session.run_folder());
}

/// Finds the checkpoint to train on from, as --resume asks.
void choose_checkpoint(const CommandLine& line, const train::Services& services, config::Config& config) {
  const auto point = train::find_resume_point(config.session, services, line.resume);
  if (!point) {
    services.log.info("{} holds no whole checkpoint: training from the start",
                      config.session.checkpoint_folder());
    return;
  }
  config::require_same_run(config, point->path, point->configuration, services.log);
  config.session.resume_from = point->path;
}

/// Everything that ranks can agree on before heavy work. Returns at the first phase that fails anywhere.
ExitCode set_up(Parts& parts, const CommandLine& line, config::Config& config, const Outcome& parsed) {
  comm::Communicator& ranks = *parts.communicator;
  ExitCode code = agree(ranks, parsed);
  const auto together = [&](const std::function<void()>& work) {
    if (code == ExitCode::done) code = agree(ranks, attempt(work));
  };
  together([&] {
    parts.watchdog = std::make_unique<comm::Watchdog>(ranks, config.session.distributed, &parts.stop);
  });
  together([&] { check_same_on_all_ranks(ranks, line, config); });
  together([&] {
    parts.voice = make_voice(line.verbosity, ranks.rank() == 0);
    if (!line.timeline.empty()) {
      check_timeline(line, config);
      parts.timeline = std::make_unique<train::RunTimeline>(ranks, line.timeline);
    }
    parts.engine = train::make_engine(options_for_rank(config, ranks));
    if (line.test && !line.train && ranks.rank() == 0) check_checkpoint(config.session.best_checkpoint());
  });
  // A phase of its own, which ranks can only reach together: they exchange something in it.
  together([&] {
    const auto devices = gather_devices(ranks, parts.engine->facts());
    const std::string advice = check_devices(devices, config.backend.allow_shared_gpu);
    if (!advice.empty()) parts.voice.log.warn("{}", advice);
  });
  if (code != ExitCode::done) return code;
  const train::Services services{ranks, *parts.engine, parts.voice.log, *parts.voice.progress};
  together([&] {
    train::check(config.session, services, line.train || line.benchmark);
    check_deterministic(config);
    if (line.test) train::require_test_users(io::DatasetFile(config.session.data.file));
  });
  if (!line.train) return code;
  together([&] {
    if (ranks.rank() == 0) keep_others_out(parts, config);
  });
  if (line.resume != "never") together([&] { choose_checkpoint(line, services, config); });
  return code;
}

/// Not part of the setup that ranks agree on: where it fails on one, the others may already wait for it.
void connect_gpus(Parts& parts, const config::Config& config) {
  if (parts.engine->facts().device != "cuda" || parts.communicator->size() == 1) return;
  const auto& distributed = config.session.distributed;
  parts.between_gpus = comm::make_nccl_communicator(*parts.communicator, parts.engine->facts().id,
                                                    {distributed.algorithm, config.backend.deterministic,
                                                     config.backend.allow_shared_gpu, distributed.timeout});
}

/// `phase` tells the caller how far it came. Where the run was asked to end early, what would follow is left
/// to the run that goes on.
ExitCode work(Parts& parts, const CommandLine& line, const config::Config& config, std::string& phase) {
  const train::Services services{parts.ranks(), *parts.engine, parts.voice.log, *parts.voice.progress,
                                 &parts.stop};
  const auto& session = config.session;
  const bool speaks = parts.communicator->rank() == 0;
  const auto& timeline = services.communicator.activity().timeline();
  if (line.train) {
    phase = "training";
    if (parts.communicator->size() == 1) parts.signals->interrupts_too();
    if (train::train(session, services).stopped) {
      parts.signals->stopped();
      return ExitCode::stopped;
    }
    parts.signals.reset();
  }
  if (line.test) {
    phase = "testing";
    const Timeline::Span span(timeline, Track::run, "test");
    services.communicator.activity().enter(Phase::test);
    const auto result = train::test(session, services, session.best_checkpoint());
    if (speaks) print(train::to_table(result));
  }
  if (line.benchmark) {
    phase = "the benchmark";
    const Timeline::Span span(timeline, Track::run, "benchmark");
    services.communicator.activity().enter(Phase::benchmark);
    const auto result = train::benchmark(session, services);
    if (speaks) print(train::to_table(result));
  }
  return ExitCode::done;
}

}  // namespace

ExitCode run_on_ranks(const CommandLine& line, const Outcome& usage) {
  config::Config config;
  Outcome parsed = usage;
  Parts parts;
  if (usage.ok()) {
    // From the first moment: a request while data are loaded is kept for the first step.
    if (line.train) parts.signals.emplace(parts.stop);
    parsed = attempt([&] {
      config = config::load(line.config, line.overrides);
      config.session.version = version_text();
      config.session.commit = commit;
    });
  }
  parts.communicator = make_communicator(config.session.distributed);
  const ExitCode ready = set_up(parts, line, config, parsed);
  if (ready != ExitCode::done) return ready;

  std::string phase = "connecting the GPUs";
  ExitCode ended = ExitCode::done;
  const Outcome outcome = attempt([&] {
    connect_gpus(parts, config);
    introduce(parts, line, config);
    if (parts.timeline) parts.timeline->start(*parts.communicator);
    ended = work(parts, line, config, phase);
    if (!parts.timeline) return;
    phase = "writing the timeline";
    parts.communicator->activity().enter(Phase::checkpoint);
    parts.timeline->write(*parts.communicator, parts.voice.log);
  });
  if (outcome.ok()) return ended;
  parts.voice.progress->end();
  return end_all(parts.ranks(), outcome, phase);
}

}  // namespace vaecf::app
