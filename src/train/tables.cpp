#include <vaecf/base/format.hpp>
#include <vaecf/train/session.hpp>

#include "run_log.hpp"
#include "step_phases.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace vaecf::train {

std::string to_table(const TestResult& result) {
  std::size_t width = 6;
  for (const auto& [name, value] : result.model.metrics) width = std::max(width, name.size());
  std::string table = format("test of epoch {}: {} users", result.epoch, result.model.users);
  if (result.model.users_without_target > 0) {
    table += format(", {} without a target left out", result.model.users_without_target);
  }
  std::vector<std::pair<const char*, const Metrics*>> columns = {{"model", &result.model.metrics}};
  if (result.cold) columns.emplace_back("features alone", &result.cold->metrics);
  columns.emplace_back("popularity", &result.popularity.metrics);
  table += format("\n  {:<{}}", "metric", width);
  for (const auto& [title, metrics] : columns) table += format("  {:>18}", title);
  table += "\n";
  const auto cell = [](const Metrics& metrics, const std::string& name) {
    const auto found = metrics.find(name);
    if (found == metrics.end()) return std::string("-");
    const auto& [mean, error] = found->second;
    return error ? format("{:.4f} +- {:.4f}", mean, *error) : format("{:.4f}          ", mean);
  };
  for (const auto& [name, value] : result.model.metrics) {
    table += format("  {:<{}}", name, width);
    for (const auto& [title, metrics] : columns) table += format("  {:>18}", cell(*metrics, name));
    table += "\n";
  }
  return table;
}

std::string to_table(const BenchmarkResult& result) {
  const auto line = [](const std::string& label, double value, int digits, const std::string& unit) {
    return format("  {:<22}{:>12.{}f} {}\n", label, value, digits, unit);
  };
  std::string table = format("benchmark on {}\n", result.machine);
  const int digits = result.milliseconds_per_step > 0.0 && result.milliseconds_per_step < 10.0 ? 3 : 2;
  table += line("training", result.users_per_second, 0, "users/s");
  table += line("epoch", result.seconds_per_epoch, 2, "s");
  table += line("step (median)", result.milliseconds_per_step, digits, "ms");
  for (const StepPhase& phase : step_phases) {
    const auto found = result.phase_milliseconds.find(phase.name);
    if (found != result.phase_milliseconds.end()) {
      table += line(std::string("  ") + phase.name, found->second, digits, "ms");
    }
  }
  const bool tera = result.gemm_gflops >= 1e4;
  const auto flops = [&](double gflops) { return tera ? 1e-3 * gflops : gflops; };
  table += line("dense products", flops(result.gflops), tera ? 1 : 0,
                format("{}FLOP/s, {:.0f} % of the machine's {:.{}f}", tera ? 'T' : 'G',
                       100.0 * result.gemm_share(), flops(result.gemm_gflops), tera ? 1 : 0));
  table += line("weights and moments", result.memory_gbytes, 1,
                format("GB/s, {:.0f} % of the memory's {:.1f}", 100.0 * result.memory_share(),
                       result.memory_rate_gbytes));
  if (!result.all_reduce.empty()) {
    const comm::AllReduceTime& largest = result.all_reduce.back();
    table += line(
        "sum over ranks", largest.rate_gbytes(), 2,
        format("GB/s for {:.3g} MiB; {:.1f} us for {} bytes", static_cast<double>(largest.bytes) / 1048576.0,
               1e6 * result.all_reduce.front().seconds, result.all_reduce.front().bytes));
  }
  if (result.wire.total > 0.0) table += format("  {:<22}{}\n", "on the wire, a step", wire_line(result.wire));
  if (result.evaluation_users > 0) {
    table += line(
        "full-ranking test", result.evaluation_users_per_second, 0,
        format("users/s, {} users in {:.1f} ms", result.evaluation_users, result.evaluation_milliseconds));
  }
  table += line("peak memory", result.peak_memory_mib, 0, "MiB a rank");
  if (result.peak_device_mib > 0.0) {
    table += line("peak GPU memory", result.peak_device_mib, 0, "MiB a rank");
  }
  table += line("data in memory", result.data_memory_mib, 0, "MiB a rank");
  return table;
}

}  // namespace vaecf::train
