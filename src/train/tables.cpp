#include <vaecf/base/format.hpp>
#include <vaecf/train/session.hpp>

#include <algorithm>
#include <string>

namespace vaecf::train {

std::string to_table(const TestResult& result) {
  std::size_t width = 6;
  for (const auto& [name, value] : result.model.metrics) width = std::max(width, name.size());
  std::string table = format("test of epoch {}: {} users", result.epoch, result.model.users);
  if (result.model.users_without_target > 0) {
    table += format(", {} without a target left out", result.model.users_without_target);
  }
  table += format("\n  {:<{}}  {:>18}  {:>18}\n", "metric", width, "model", "popularity");
  const auto cell = [](const Metrics& metrics, const std::string& name) {
    const auto found = metrics.find(name);
    if (found == metrics.end()) return std::string("-");
    return format("{:.4f} +- {:.4f}", found->second.mean, found->second.standard_error);
  };
  for (const auto& [name, value] : result.model.metrics) {
    table += format("  {:<{}}  {:>18}  {:>18}\n", name, width, cell(result.model.metrics, name),
                    cell(result.popularity.metrics, name));
  }
  return table;
}

std::string to_table(const BenchmarkResult& result) {
  const auto line = [](const std::string& label, double value, int digits, const std::string& unit) {
    return format("  {:<22}{:>12.{}f} {}\n", label, value, digits, unit);
  };
  std::string table = "benchmark\n";
  table += line("training", result.users_per_second, 0, "users/s");
  table += line("epoch", result.seconds_per_epoch, 2, "s");
  table += line("step (median)", result.milliseconds_per_step, 2, "ms");
  for (const char* phase : {"input", "forward", "loss", "backward", "all-reduce", "optimiser"}) {
    const auto found = result.phase_milliseconds.find(phase);
    if (found != result.phase_milliseconds.end()) {
      table += line(std::string("  ") + phase, found->second, 2, "ms");
    }
  }
  const double share = result.gemm_gflops > 0.0 ? 100.0 * result.gflops / result.gemm_gflops : 0.0;
  table += line("dense products", result.gflops, 0,
                format("GFLOP/s, {:.0f} % of the machine's {:.0f}", share, result.gemm_gflops));
  table += line("full-ranking test", result.evaluation_users_per_second, 0, "users/s");
  table += line("peak memory", result.peak_memory_mib, 0, "MiB a rank");
  if (result.peak_device_mib > 0.0) {
    table += line("peak GPU memory", result.peak_device_mib, 0, "MiB a rank");
  }
  table += line("data in memory", result.data_memory_mib, 0, "MiB a rank");
  return table;
}

}  // namespace vaecf::train
