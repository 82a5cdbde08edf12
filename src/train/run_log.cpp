#include "run_log.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/checkpoint_folder.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace vaecf::train {
namespace {

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  file << text << std::flush;
  if (file) return;
  throw RunError(
      format("{}: cannot be written ({}); check the disk and your rights, or give another "
             "run.directory",
             path, std::strerror(errno)));
}

std::string older(const std::string& path) {
  return path + ".old";
}

/// Where something cannot be moved, the new run goes on beside it.
void move_aside(const SessionOptions& options) {
  std::error_code ignored;
  const std::string log = options.run_folder() + "/metrics.jsonl";
  if (std::filesystem::exists(log, ignored)) std::filesystem::rename(log, older(log), ignored);
  const std::string folder = options.checkpoint_folder();
  if (io::list_checkpoints(folder).empty()) return;
  std::filesystem::remove_all(older(folder), ignored);
  std::filesystem::rename(folder, older(folder), ignored);
}

io::EventLog open_events(const SessionOptions& options, const Services& services, RunLog::Mode mode) {
  if (services.communicator.rank() != 0) return {};
  if (mode == RunLog::Mode::fresh) move_aside(options);
  prepare_run_folder(options);
  if (mode != RunLog::Mode::append) {
    io::remove_stale_temporaries(options.checkpoint_folder());
    write_text(options.run_folder() + "/config.yaml", options.configuration_text);
  }
  return io::EventLog(options.run_folder() + "/metrics.jsonl");
}

}  // namespace

void prepare_run_folder(const SessionOptions& options) {
  const std::string folder = options.checkpoint_folder();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw RunError(
        format("{}: the run folder cannot be made ({}); check your rights, or give another "
               "run.directory or name",
               folder, error.message()));
  }
  for (const std::string& place : {options.run_folder(), folder}) {
    const std::string probe = place + "/.writable";
    write_text(probe, "\n");
    std::filesystem::remove(probe, error);
  }
}

void cut_back(const SessionOptions& options, std::int64_t epochs_done, std::int64_t step, Log& log) {
  const io::CutEvents cut =
      io::cut_events(options.run_folder() + "/metrics.jsonl", [&](const io::EventView& event) {
        const std::string name = event.name();
        if (name == "end" || name == "test") return false;  // the run's last words: it has not ended
        if (name == "epoch" || name == "validation") return event.integer("epoch").value_or(0) <= epochs_done;
        return event.integer("step").value_or(0) <= step;
      });
  if (cut.dropped + cut.unreadable > 0) {
    log.debug("metrics.jsonl: {} lines later than the checkpoint and {} unreadable ones cut", cut.dropped,
              cut.unreadable);
  }
  const std::string folder = options.checkpoint_folder();
  for (const io::CheckpointCandidate& file : io::list_checkpoints(folder)) {
    const bool later = (file.kind == io::CheckpointKind::epoch && file.number > epochs_done) ||
                       (file.kind == io::CheckpointKind::step && file.number > step);
    if (!later) continue;
    std::error_code error;
    std::filesystem::create_directories(older(folder), error);
    std::filesystem::rename(file.path, older(folder) / std::filesystem::path(file.path).filename(), error);
    if (error) {
      throw RunError(
          format("{}: it is later than the checkpoint to go on from, and cannot be moved to {} ({}); "
                 "move it away, or check your rights",
                 file.path, older(folder), error.message()));
    }
  }
}

RunLog::RunLog(const SessionOptions& options, const Services& services, Mode mode)
    : events_(open_events(options, services, mode)) {}

io::Event start_event(const SessionOptions& options, const Services& services, std::int64_t users,
                      std::int64_t items, std::int64_t parameters) {
  io::Event event("start");
  event.set("version", options.version)
      .set("name", options.name)
      .set("config", options.configuration_text)
      .set("ranks", std::int64_t{services.communicator.size()})
      .set("device", services.backend.device())
      .set("precision", backend::to_string(services.backend.precision()))
      .set("threads", std::int64_t{services.backend.threads()})
      .set("backend", services.backend.description())
      .set("users", users)
      .set("items", items)
      .set("parameters", parameters);
  return event;
}

void add_metrics(io::Event& event, const EvaluationResult& result, const std::string& prefix) {
  for (const auto& [name, value] : result.metrics) {
    event.set(prefix + name, value.mean).set(prefix + name + "_se", value.standard_error);
  }
}

std::string metrics_line(const EvaluationResult& result) {
  std::string line;
  for (const auto& [name, value] : result.metrics) {
    line += format("{}{} {:.4f}", line.empty() ? "" : "  ", name, value.mean);
  }
  return line;
}

}  // namespace vaecf::train
