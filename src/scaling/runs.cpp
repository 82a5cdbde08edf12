#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/json.hpp>
#include <vaecf/scaling/report.hpp>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace vaecf::scaling {
namespace {

namespace fs = std::filesystem;

constexpr double giga = 1e9;
constexpr double nonsense = 1e15;  // users/s above which a record is ignored

int whole_at(const io::Json& event, std::string_view key, int otherwise) {
  return static_cast<int>(io::get_number(event, key, otherwise));
}

/// Returns the seconds of a phase. Older versions spell the last phase with an "s" in place of the "z".
double phase_seconds(const io::Json& event, const std::string& phase) {
  std::string key = phase + "_ms";
  if (phase == "optimizer" && !event.contains(key)) key.replace(key.find('z'), 1, "s");
  return 1e-3 * io::get_number(event, key);
}

RunRecord run_of(const io::Json& event) {
  RunRecord run;
  run.version = io::get_string(event, "version");
  run.machine = io::get_string(event, "machine");
  run.host = io::get_string(event, "host");
  run.device = io::get_string(event, "device");
  run.precision = io::get_string(event, "precision");
  run.servers = whole_at(event, "servers", 0);
  run.server_updates = io::get_string(event, "server_updates");
  run.optimizer = io::get_string(event, "optimizer", "replicated");
  run.wire = io::get_string(event, "wire", "fp32");
  run.overlap = io::get_string(event, "overlap", "off");
  run.ranks = whole_at(event, "ranks", 1);
  run.ranks_per_host = whole_at(event, "ranks_per_host", run.ranks);
  run.threads = whole_at(event, "threads", 1);
  run.ranks_per_gpu = whole_at(event, "ranks_per_gpu", 0);
  run.cores = whole_at(event, "cores", 0);
  run.usable_cores = whole_at(event, "usable_cores", run.cores);
  run.bound_cores = whole_at(event, "bound_cores", 0);
  run.batch_size = io::get_number(event, "batch_size");
  run.users_per_step = io::get_number(event, "users_per_step", run.batch_size);
  run.virtual_shards = whole_at(event, "virtual_shards", 0);
  run.users_per_second = io::get_number(event, "users_per_second");
  run.step_seconds = 1e-3 * io::get_number(event, "milliseconds_per_step");
  for (const char* phase : phase_names) {
    run.phase_seconds[phase] = phase_seconds(event, phase);
  }
  run.wire_bytes = io::get_number(event, "wire_bytes");
  run.bucket_bytes = 1048576.0 * io::get_number(event, "bucket_mib", 4.0);
  run.gemm_rate = giga * io::get_number(event, "gemm_gflops");
  run.memory_rate = giga * io::get_number(event, "memory_rate_gbytes");
  run.workload.parameters = io::get_number(event, "parameters");
  run.workload.dense_weights = io::get_number(event, "dense_weights");
  run.single_rank_update_bytes = io::get_number(event, "update_bytes");
  run.workload.half_copy_bytes = run.precision == "bf16" || run.precision == "fp16" ? 2.0 : 0.0;
  for (const io::Json& probe : event.value("all_reduce", io::Json::array()))
    run.all_reduce.push_back({io::get_number(probe, "bytes"), io::get_number(probe, "seconds")});
  return run;
}

void read_log(const std::string& path, std::vector<RunRecord>& runs) {
  for (const io::Json& event : io::read_json_lines(path)) {
    if (io::get_string(event, "event") != "benchmark") continue;
    RunRecord run = run_of(event);
    const bool measured = run.users_per_second > 0.0 && run.users_per_second < nonsense &&
                          run.step_seconds > 0.0 && run.users_per_step > 0.0;
    if (measured && run.ranks > 0) runs.push_back(std::move(run));
  }
}

}  // namespace

std::string RunRecord::variant() const {
  if (ranks == 1) return "";
  if (servers > 0) {
    return format("{} server{} {} {}", servers, servers == 1 ? "" : "s", server_updates, wire);
  }
  return format("{} {}{}", optimizer, wire, overlap == "on" ? " overlap" : "");
}

std::vector<RunRecord> read_runs(const std::string& folder) {
  std::vector<std::string> logs;
  std::error_code error;
  const auto add_log = [&](const fs::path& parent) {
    if (fs::is_regular_file(parent / "metrics.jsonl", error)) logs.push_back(parent / "metrics.jsonl");
  };
  add_log(folder);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) add_log(entry.path());
  std::sort(logs.begin(), logs.end());
  std::vector<RunRecord> runs;
  for (const std::string& log : logs) read_log(log, runs);
  if (runs.empty()) {
    throw InputError(format(
        "{}: no metrics.jsonl in this folder or its subfolders contains an event `benchmark`; create one with vaecf_dist CONFIG --benchmark or launch/scaling",
        folder));
  }
  return runs;
}

}  // namespace vaecf::scaling
