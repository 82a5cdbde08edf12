#include <vaecf/base/format.hpp>
#include <vaecf/checkpoint/run_log.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/run/train.hpp>

#include <cstdlib>
#include <set>

namespace vaecf::run {

void append_event(const Run& run, const io::Event& event) {
  comm::run_on_root(run.communicator, [&] {
    checkpoint::RunLog log(run, checkpoint::RunLog::Mode::append);
    log.write(event);
    log.finish();
  });
}

void log_done(const Run& run) {
  io::Event event(io::EventKind::done);
  if (!run.id.empty()) event.set("id", run.id);
  append_event(run, event.set("tasks", run.tasks));
}

io::Event start_event(const Run& run, std::int64_t users, models::InputDims inputs, std::int64_t parameters) {
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
      .set("item_slices", std::int64_t{run.item_slices()})
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

void add_metrics(io::Event& event, const evaluate::EvaluationResult& result, const std::string& prefix) {
  for (const auto& [name, value] : result.metrics) {
    event.set(prefix + name, value.mean);
    if (value.standard_error) event.set(prefix + name + "_se", *value.standard_error);
  }
}

void add_comm_volume(io::Event& event, const training::CommVolume& volume) {
  event.set("wire_bytes", volume.worker_out)
      .set("wire_bytes_in", volume.worker_in)
      .set("wire_bytes_all_ranks", volume.total);
  if (volume.server_out == 0.0) return;
  event.set("server_wire_bytes", volume.server_out).set("server_wire_bytes_in", volume.server_in);
}

std::string format_comm_volume(const training::CommVolume& volume) {
  constexpr double mib = 1048576.0;
  std::string line = format("all ranks {:.1f} MiB; per worker {:.1f} out, {:.1f} in", volume.total / mib,
                            volume.worker_out / mib, volume.worker_in / mib);
  if (volume.server_out > 0.0) {
    line += format("; per server {:.1f} out, {:.1f} in", volume.server_out / mib, volume.server_in / mib);
  }
  return line;
}

void add_staleness(io::Event& event, const training::Staleness& staleness) {
  event.set("updates", staleness.updates)
      .set("staleness", staleness.max_lead)
      .set("staleness_updates", staleness.max_age)
      .set("staleness_updates_mean", staleness.mean_age);
}

std::string metrics_line(const evaluate::EvaluationResult& result) {
  std::string line;
  for (const auto& [name, value] : result.metrics) {
    line += format("{}{} {:.4f}", line.empty() ? "" : "  ", name, value.mean);
  }
  return line;
}

}  // namespace vaecf::run
