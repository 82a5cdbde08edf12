#include <vaecf/checkpoint/run_log.hpp>
#include <vaecf/comm/collective_checks.hpp>
#include <vaecf/config/schema.hpp>
#include <vaecf/models/kind.hpp>
#include <vaecf/run/events.hpp>

#include <cstdlib>
#include <set>

#include "run/memory.hpp"

namespace vaecf::run {

void append_event(const Run& run, const io::Event& event) {
  comm::run_on_root(run.communicator, [&] {
    checkpoint::RunLog log(run, run.folder(), checkpoint::RunLog::Mode::append);
    log.write(event);
    log.finish();
  });
}

void log_done(const Run& run) {
  append_event(run, start_event(run));
  io::Event event(io::EventKind::done);
  if (!run.id.empty()) event.set("id", run.id);
  append_event(run, event);
}

io::Json settings_of(const models::Search::Values& values) {
  io::Json settings = io::Json::object();
  for (const auto& [name, value] : values)
    std::visit([&, key = name](const auto& of_key) { settings[key] = of_key; }, value);
  return settings;
}

std::int64_t parameter_count(const Run& run) {
  return models::kind_of(run.options.model.type)
      .cost(run.options.model, workload_of(run.options, run.dataset, run))
      .parameters;
}

io::Event start_event(const Run& run) {
  const auto host_of = comm::all_gather_strings(run.communicator, run.communicator.host());
  const device::DeviceFacts device = run.device.facts();
  const models::InputDims inputs = models::input_dims(run.options.model, run.dataset);
  io::Event event(io::EventKind::start);
  if (!run.id.empty()) event.set("id", run.id);
  event.set("format_version", std::int64_t{1});  // of the log
  event.set("tasks", run.tasks).set("version", run.version);
  if (!run.commit.empty()) event.set("commit", run.commit);
  event.set("hosts", std::set(host_of.begin(), host_of.end()));
  if (const char* job = std::getenv("SLURM_JOB_ID")) event.set("slurm_job_id", std::string(job));
  event.set("name", run.options.name)
      .set("model", vaecf::to_string(run.options.model.type))
      .set("config", config::to_json(run.configuration_text))
      .set("ranks", std::int64_t{run.communicator.size()})
      .set("item_slices", std::int64_t{run.item_slices()})
      .set("communication", run.communicator.description())
      .set("bucket_bytes", comm::bucket_bytes(run.options.distributed, run.communicator))
      .set("device", to_string(device.kind))
      .set("precision", vaecf::to_string(device.precision))
      .set("threads", std::int64_t{device.threads})
      .set("backend", device.description)
      .set("dataset_checksum", run.dataset.fingerprint())
      .set("users", run.dataset.rows("train"))
      .set("items", run.dataset.items())
      .set("parameters", parameter_count(run));
  if (inputs.features > 0) event.set("user_features", inputs.features);
  return event;
}

namespace {

io::Json metrics_json(const evaluate::Metrics& metrics, const evaluate::Metrics& random = {}) {
  io::Json all = io::Json::object();
  for (const auto& [name, value] : metrics) {
    io::Json& metric = all[name];
    metric["value"] = value.mean;
    if (value.standard_error) metric["se"] = *value.standard_error;
    if (random.contains(name)) metric["random"] = random.at(name).mean;
  }
  return all;
}

}  // namespace

io::Json json_of(const evaluate::EvaluationResult& result) {
  io::Json of_result{{"metrics", metrics_json(result.metrics)}};
  io::Json groups = io::Json::object();
  if (!result.with_history.empty()) {
    const std::int64_t without = result.users_without_history;
    groups["with_history"] = {{"users", result.users - without},
                              {"metrics", metrics_json(result.with_history)}};
    groups["without_history"] = {{"users", without}, {"metrics", metrics_json(result.without_history)}};
  }
  for (const auto& [name, group] : {std::pair("head", &result.head), std::pair("tail", &result.tail)})
    if (group->users > 0) groups[name] = {{"users", group->users}, {"metrics", metrics_json(group->metrics)}};
  if (const auto& of_new = result.new_items) {
    groups["new_items"] = {{"users", of_new->users},
                           {"items", of_new->items},
                           {"metrics", metrics_json(of_new->metrics, of_new->random)}};
  }
  if (!groups.empty()) of_result["groups"] = groups;
  return of_result;
}

void add_evaluation(io::Event& event, const evaluate::EvaluationResult& result) {
  event.set("users", result.users).set("users_without_target", result.users_without_target);
  const io::Json of_result = json_of(result);
  for (const auto& [name, value] : of_result.items()) event.set(name, value);
}

std::optional<double> metric_in(const io::Json& event, const std::string& name) {
  const auto metrics = event.find("metrics");
  if (metrics == event.end() || !metrics->is_object()) return std::nullopt;
  const auto metric = metrics->find(name);
  if (metric == metrics->end() || !metric->is_object() || !metric->contains("value")) return std::nullopt;
  const io::Json& value = (*metric)["value"];
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

void add_comm_volume(io::Event& event, const training::CommVolume& volume) {
  event.set("wire_bytes", volume.worker_out)
      .set("wire_in_bytes", volume.worker_in)
      .set("all_ranks_wire_bytes", volume.total);
  if (volume.server_out == 0.0) return;
  event.set("server_wire_bytes", volume.server_out).set("server_wire_in_bytes", volume.server_in);
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
