#include <vaecf/base/error.hpp>
#include <vaecf/checkpoint/run_failure.hpp>
#include <vaecf/checkpoint/run_folder.hpp>
#include <vaecf/checkpoint/run_log.hpp>
#include <vaecf/comm/collective.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/file_lock.hpp>

#include <array>
#include <chrono>
#include <ctime>
#include <exception>
#include <filesystem>
#include <future>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

namespace vaecf::checkpoint {
namespace {

void set_aside_later_checkpoints(const config::TrainingConfig& options, std::int64_t epochs_done,
                                 std::int64_t step) {
  // Of best.h5, whose name does not contain it.
  const auto step_of = [](const io::CheckpointFile& file) { return file.attribute<std::int64_t>("step"); };
  for (const io::CheckpointEntry& file : io::list_checkpoints(options.checkpoint_folder())) {
    const bool later = (file.kind == io::CheckpointKind::epoch && file.number > epochs_done) ||
                       (file.kind == io::CheckpointKind::step && file.number > step) ||
                       (file.kind == io::CheckpointKind::best && read_or_zero(file.path, step_of) > step);
    if (later) set_aside(options, file.path);
  }
}

/// Returns the current time as in "2026-11-23T10:17:03Z".
std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%FT%TZ", &parts)};
}

io::EventLog open_events(const Context& context, const config::TrainingConfig& options,
                         const std::string& configuration, RunLog::Mode mode) {
  if (context.communicator.rank() != 0) return {};
  prepare_run_folder(options);
  if (mode != RunLog::Mode::append) {
    io::remove_stale_temporaries(options.checkpoint_folder());
    io::write_file_atomically(options.run_folder() + "/config.yaml", configuration);
  }
  return io::EventLog(options.run_folder() + "/metrics.jsonl");
}

}  // namespace

std::int64_t read_or_zero(const std::string& path,
                          const std::function<std::int64_t(const io::CheckpointFile& file)>& read) {
  try {
    return read(io::CheckpointFile(path));
  } catch (const io::FileInUseError&) {
    throw;
  } catch (const InputError&) {
    return 0;
  }
}

void set_aside(const config::TrainingConfig& options, const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path folder = options.checkpoint_folder() + "/aside";
  const fs::path name = fs::path(path).filename();
  std::error_code error;
  fs::create_directories(folder, error);
  fs::path target = folder / name;
  for (int n = 1; fs::exists(fs::symlink_status(target, error)); ++n)
    target = folder / format("{}.{}{}", name.stem().string(), n, name.extension().string());
  fs::rename(path, target, error);
  if (!error) return;
  throw RunError(format(
      "{}: this checkpoint does not match the resumed run and cannot be moved to {} ({}); check the permissions, or move or delete it",
      path, folder.string(), error.message()));
}

void prepare_run_folder(const config::TrainingConfig& options) {
  const std::string folder = options.checkpoint_folder();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw RunError(format(
        "{}: the run folder cannot be created ({}); check the permissions, or use another run.directory or name",
        folder, error.message()));
  }
  for (const std::string& checked : {options.run_folder(), folder}) {
    io::AtomicOutputFile probe(checked + "/.writable");  // removed, because it is not committed
    probe.write("\n");
  }
}

void rewind_run_folder(const config::TrainingConfig& options, Log& log, std::int64_t epochs_done,
                       std::int64_t step) {
  // Checkpoints are moved first: if the run is killed in between, the log still covers the newest checkpoint.
  set_aside_later_checkpoints(options, epochs_done, step);
  const io::FilterResult cut =
      io::filter_event_log(options.run_folder() + "/metrics.jsonl", [&](const io::Json& event) {
        using enum io::EventKind;
        const auto kind = io::event_kind(event);
        if (kind == end || kind == test) return false;  // the run is no longer finished
        if (kind == epoch || kind == validation) return io::get_number(event, "epoch") <= epochs_done;
        return io::get_number(event, "step") <= step;
      });
  if (cut.dropped + cut.unreadable > 0) {
    log.debug("metrics.jsonl: removed {} lines newer than the checkpoint and {} unreadable ones", cut.dropped,
              cut.unreadable);
  }
}

RunLog::RunLog(const Context& context, const config::TrainingConfig& options,
               const std::string& configuration, Mode mode)
    : log_(context.log), events_(open_events(context, options, configuration, mode)) {}

void RunLog::flush_pending() {
  for (; !pending_.empty(); pending_.pop_front()) events_.write(pending_.front());
}

void RunLog::note(bool& fails, const std::string& error) {
  fails = !error.empty();
  if (fails) {
    ++failures_;
    if (failures_ == 1) log_.warn("{} (training continues; further failed writes are counted)", error);
    if (failures_ > 1) log_.debug("{}", error);
  } else if (failures_ > 0 && !events_fail_ && !checkpoints_fail_) {
    log_.warn("events and checkpoints are written again, after {} failed writes",
              std::exchange(failures_, 0));
  }
}

void RunLog::write(const io::Event& event) {
  pending_.push_back(event);
  pending_.back().set("time", utc_now());
  try {
    flush_pending();
    note(events_fail_, "");
  } catch (const RunError& error) {
    note(events_fail_, error.what());
  }
}

void RunLog::finish() {
  flush_pending();
}

void log_failure(const std::string& run_folder, const RunFailure& failure) {
  io::Event event(io::EventKind::failed);
  if (!failure.id.empty()) event.set("id", failure.id);
  event.set("reason", failure.reason)
      .set("rank", std::int64_t{failure.rank})
      .set("host", failure.host)
      .set("phase", to_string(failure.at.phase))
      .set("step", failure.at.step)
      .set("time", utc_now());
  // A thread that is not waited for without end, because a file system may not respond.
  const auto written = std::make_shared<std::promise<void>>();
  std::thread([written, event, path = run_folder + "/metrics.jsonl"] {
    try {
      if (std::filesystem::exists(path)) io::EventLog(path).write(event);
    } catch (const std::exception&) {  // the message on the terminal has to suffice
    }
    written->set_value();
  }).detach();
  written->get_future().wait_for(std::chrono::seconds(5));
}

}  // namespace vaecf::checkpoint
