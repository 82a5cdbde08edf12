#include "train/run/run_log.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/comm/collectives.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/file_lock.hpp>

#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <future>
#include <memory>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

namespace vaecf::train {
namespace {

/// Returns the step of a checkpoint whose name does not contain it (best.h5), or 0 if it cannot be read.
std::int64_t step_of(const std::string& path) {
  try {
    return io::CheckpointFile(path).attribute<std::int64_t>("step");
  } catch (const io::FileInUseError&) {
    throw;
  } catch (const InputError&) {
    return 0;
  }
}

void set_aside_later_checkpoints(const TrainingConfig& options, std::int64_t epochs_done, std::int64_t step) {
  for (const io::CheckpointEntry& file : io::list_checkpoints(options.checkpoint_folder())) {
    const bool later = (file.kind == io::CheckpointKind::epoch && file.number > epochs_done) ||
                       (file.kind == io::CheckpointKind::step && file.number > step) ||
                       (file.kind == io::CheckpointKind::best && step_of(file.path) > step);
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

io::EventLog open_events(const Run& run, RunLog::Mode mode) {
  if (run.communicator.rank() != 0) return {};
  prepare_run_folder(run.options);
  if (mode != RunLog::Mode::append) {
    io::remove_stale_temporaries(run.options.checkpoint_folder());
    io::write_file_atomically(run.options.run_folder() + "/config.yaml", run.configuration_text);
  }
  return io::EventLog(run.options.run_folder() + "/metrics.jsonl");
}

}  // namespace

void set_aside(const TrainingConfig& options, const std::string& path) {
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

void prepare_run_folder(const TrainingConfig& options) {
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

void rewind_run_folder(const Run& run, std::int64_t epochs_done, std::int64_t step) {
  // Checkpoints are moved first: if the run is killed in between, the log still covers the newest checkpoint.
  set_aside_later_checkpoints(run.options, epochs_done, step);
  const io::FilterResult cut =
      io::filter_event_log(run.options.run_folder() + "/metrics.jsonl", [&](const io::Json& event) {
        using enum io::EventKind;
        const auto kind = io::event_kind(event);
        if (kind == end || kind == test) return false;  // the run is no longer finished
        if (kind == epoch || kind == validation) return io::get_number(event, "epoch") <= epochs_done;
        return io::get_number(event, "step") <= step;
      });
  if (cut.dropped + cut.unreadable > 0) {
    run.log.debug("metrics.jsonl: removed {} lines newer than the checkpoint and {} unreadable ones",
                  cut.dropped, cut.unreadable);
  }
}

RunLog::RunLog(const Run& run, Mode mode) : log_(run.log), events_(open_events(run, mode)) {}

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

void append_event(const Run& run, const io::Event& event) {
  comm::run_on_root(run.communicator, [&] {
    RunLog log(run, RunLog::Mode::append);
    log.write(event);
    log.finish();
  });
}

void log_done(const Run& run) {
  io::Event event(io::EventKind::done);
  if (!run.id.empty()) event.set("id", run.id);
  append_event(run, event.set("tasks", run.tasks));
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

io::Event start_event(const Run& run, std::int64_t users, model::InputDims inputs, std::int64_t parameters) {
  const auto host_of = comm::all_gather_strings(run.communicator, run.communicator.host());
  const device::DeviceFacts device = run.device.facts();
  io::Event event(io::EventKind::start);
  if (!run.id.empty()) event.set("id", run.id);
  event.set("tasks", run.tasks).set("version", run.version);
  if (!run.commit.empty()) event.set("commit", run.commit);
  event.set("hosts", std::set(host_of.begin(), host_of.end()));
  if (const char* job = std::getenv("SLURM_JOB_ID")) event.set("slurm_job_id", std::string(job));
  event.set("name", run.options.name)
      .set("model", vaecf::to_string(run.options.model.type))
      .set("config", run.configuration_text)
      .set("ranks", std::int64_t{run.communicator.size()})
      .set("item_slices", std::int64_t{run.slices()})
      .set("device", to_string(device.kind))
      .set("precision", vaecf::to_string(device.precision))
      .set("threads", std::int64_t{device.threads})
      .set("backend", device.description)
      .set("users", users)
      .set("items", inputs.items)
      .set("parameters", parameters);
  if (inputs.features > 0) event.set("features", inputs.features);
  return event;
}

void add_metrics(io::Event& event, const EvaluationResult& result, const std::string& prefix) {
  for (const auto& [name, value] : result.metrics) {
    event.set(prefix + name, value.mean);
    if (value.standard_error) event.set(prefix + name + "_se", *value.standard_error);
  }
}

void add_comm_volume(io::Event& event, const CommVolume& volume) {
  event.set("wire_bytes", volume.worker_out)
      .set("wire_bytes_in", volume.worker_in)
      .set("wire_bytes_all_ranks", volume.total);
  if (volume.server_out == 0.0) return;
  event.set("server_wire_bytes", volume.server_out).set("server_wire_bytes_in", volume.server_in);
}

std::string format_comm_volume(const CommVolume& volume) {
  constexpr double mib = 1048576.0;
  std::string line = format("all ranks {:.1f} MiB; per worker {:.1f} out, {:.1f} in", volume.total / mib,
                            volume.worker_out / mib, volume.worker_in / mib);
  if (volume.server_out > 0.0) {
    line += format("; per server {:.1f} out, {:.1f} in", volume.server_out / mib, volume.server_in / mib);
  }
  return line;
}

void add_staleness(io::Event& event, const Staleness& staleness) {
  event.set("updates", staleness.updates)
      .set("staleness", staleness.max_lead)
      .set("staleness_updates", staleness.max_age)
      .set("staleness_updates_mean", staleness.mean_age);
}

std::string metrics_line(const EvaluationResult& result) {
  std::string line;
  for (const auto& [name, value] : result.metrics) {
    line += format("{}{} {:.4f}", line.empty() ? "" : "  ", name, value.mean);
  }
  return line;
}

}  // namespace vaecf::train
