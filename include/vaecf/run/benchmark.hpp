#pragma once

#include <vaecf/run/all_reduce_benchmark.hpp>
#include <vaecf/run/run.hpp>
#include <vaecf/training/trainer.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace vaecf::run {

/// The result of a benchmark; times and memory are those of the slowest or largest rank. Phase times are
/// medians over additional steps of the rank with the longest compute time, by the device clock on a GPU.
/// Those steps do not use captured graphs; the other steps do if the device supports it.
struct BenchmarkResult {
  std::string machine;             ///< processor, cores, memory, and the description of the device
  std::int64_t steps = 0;          ///< number of timed steps
  std::int64_t warm_up_steps = 0;  ///< number of steps before the measurement
  double users_per_step = 0.0;     ///< mean; the last step of an epoch may have fewer users
  double users_per_second = 0.0;
  double seconds_per_epoch = 0.0;
  double milliseconds_per_step = 0.0;  ///< median
  /// input, forward, loss, backward, all-reduce, optimizer; with a parameter server the optimizer time is
  /// also part of the workers' all-reduce time
  std::map<std::string, double> phase_milliseconds;
  double gflops = 0.0;       ///< GFLOP/s of the dense layers during training
  double gemm_gflops = 0.0;  ///< peak GEMM GFLOP/s of the machine, measured in the same run
  /// Memory traffic in GB/s that the updates of all ranks need at least for weights, moments and gradients.
  double memory_gbytes = 0.0;
  double memory_rate_gbytes = 0.0;  ///< peak memory bandwidth in GB/s, measured in the same run
  /// All-reduce times by message size, ascending, measured in the same run; empty for one rank.
  std::vector<AllReduceTiming> all_reduce;
  training::CommVolume comm_volume;  ///< communication volume of a step
  double peak_memory_mib = 0.0;
  double peak_device_mib = 0.0;              ///< peak GPU memory; 0 on the CPU
  double data_memory_mib = 0.0;              ///< memory of a rank's training users
  double evaluation_users_per_second = 0.0;  ///< held-out users, ranked among all items
  double evaluation_milliseconds = 0.0;      ///< duration for all of them
  std::int64_t evaluation_users = 0;
  std::vector<std::string> products;  ///< DeviceFacts::products, before the peak was measured

  double gemm_share() const { return gemm_gflops > 0.0 ? gflops / gemm_gflops : 0.0; }
  double memory_share() const { return memory_rate_gbytes > 0.0 ? memory_gbytes / memory_rate_gbytes : 0.0; }
};

/// Measures training for train.epochs epochs or benchmark.seconds, whichever is shorter, but at least 20
/// steps, after warm-up steps. Appends the result to metrics.jsonl. Collective.
BenchmarkResult benchmark(const Run& run);
/// Formats a result for the terminal.
std::string to_table(const BenchmarkResult& result);

/// Returns the number of warm-up steps: an epoch, or about `seconds` of steps of `step_seconds` each if that
/// is less, but at least 12.
std::int64_t warm_up_steps(double seconds, double step_seconds, std::int64_t steps_per_epoch);

}  // namespace vaecf::run
