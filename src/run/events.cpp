#include <vaecf/checkpoint/run_log.hpp>
#include <vaecf/comm/collective_checks.hpp>
#include <vaecf/run/events.hpp>

#include <cstdlib>
#include <set>

namespace vaecf::run {

void append_event(const Run& run, const io::Event& event) {
  comm::run_on_root(run.communicator, [&] {
    checkpoint::RunLog log(run, run.options, run.configuration_text, checkpoint::RunLog::Mode::append);
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
  event.set("format_version", std::int64_t{1});  // of the log
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
  if (inputs.features > 0) event.set("user_features", inputs.features);
  return event;
}

void add_metrics(io::Event& event, const evaluate::EvaluationResult& result, const std::string& prefix) {
  const auto add = [&](const evaluate::Metrics& metrics, const std::string& before) {
    for (const auto& [name, value] : metrics) {
      event.set(before + name, value.mean);
      if (value.standard_error) event.set(before + name + "_se", *value.standard_error);
    }
  };
  add(result.metrics, prefix);
  if (!result.new_items) return;
  add(result.new_items->metrics, prefix + "new_items_");
  if (!prefix.empty()) return;
  event.set("new_items", result.new_items->items).set("new_items_users", result.new_items->users);
  for (const auto& [name, value] : result.new_items->random)
    event.set("new_items_" + name + "_random", value.mean);
}

void add_evaluation(io::Event& event, const evaluate::EvaluationResult& result) {
  event.set("users", result.users).set("users_without_target", result.users_without_target);
  add_metrics(event, result);
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
  if (volume.server_out > 0.0)
    line += format("; per server {:.1f} out, {:.1f} in", volume.server_out / mib, volume.server_in / mib);
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
  for (const auto& [name, value] : result.metrics)
    line += format("{}{} {:.4f}", line.empty() ? "" : "  ", name, value.mean);
  if (!result.new_items) return line;
  line += "  new items:";
  for (const auto& [name, value] : result.new_items->metrics) line += format(" {} {:.4f}", name, value.mean);
  return line;
}

}  // namespace vaecf::run
