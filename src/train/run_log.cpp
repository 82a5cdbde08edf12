#include "run_log.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

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

io::EventLog open_events(const SessionOptions& options, const Services& services, RunLog::Mode mode) {
  if (services.communicator.rank() != 0) return {};
  prepare_run_folder(options);
  const std::string path = options.run_folder() + "/metrics.jsonl";
  if (mode == RunLog::Mode::fresh) {
    std::error_code ignored;  // where it cannot be moved, the new run goes on behind it
    if (std::filesystem::exists(path, ignored)) std::filesystem::rename(path, path + ".old", ignored);
    write_text(options.run_folder() + "/config.yaml", options.configuration_text);
  }
  return io::EventLog(path);
}

}  // namespace

void prepare_run_folder(const SessionOptions& options) {
  const std::string folder = options.run_folder() + "/checkpoints";
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
