#pragma once

#include <vaecf/scaling/performance_model.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// Reports on scaling: compares the `benchmark` events of many runs with the predictions of the performance
/// model.
namespace vaecf::scaling {

/// The phases of a step in order, with the names in benchmark events.
inline constexpr std::array<const char*, 6> phase_names = {"input",    "forward",    "loss",
                                                           "backward", "all-reduce", "optimizer"};

/// The content of one `benchmark` event; docs/SCALING.md describes the fields.
struct RunRecord {
  std::string version, machine, host, device, precision;
  std::string optimizer, wire, overlap;
  int servers = 0;  ///< number of parameter servers among the ranks
  std::string server_updates;
  int ranks = 1;
  int ranks_per_host = 1;
  int threads = 1;
  int ranks_per_gpu = 0;  ///< maximum over GPUs; 0 on the CPU
  int cores = 0;          ///< cores of the host
  int usable_cores = 0;   ///< cores in the combined affinity mask of the host's ranks
  int bound_cores = 0;    ///< cores in the affinity mask of a rank
  double batch_size = 0.0;
  double users_per_step = 0.0;  ///< mean; the last step of an epoch may have fewer users
  int virtual_shards = 0;
  double users_per_second = 0.0;
  double step_seconds = 0.0;
  std::map<std::string, double> phase_seconds;  ///< keys: phase_names
  double wire_bytes = 0.0;                      ///< bytes that each rank sends in a step
  double bucket_bytes = 0.0;
  double gemm_rate = 0.0;                 ///< FLOP/s of all ranks, measured concurrently
  double memory_rate = 0.0;               ///< bytes/s of all ranks, measured concurrently
  double single_rank_update_bytes = 0.0;  ///< memory traffic of an update in a single-rank run
  Workload workload;
  std::vector<MeasuredAllReduce> all_reduce;

  /// Returns the name of the configuration: "replicated fp32", "sharded bf16 overlap", "1 server asynchronous
  /// fp32"; empty for a single rank.
  std::string variant() const;
};

/// Reads the benchmark events of every metrics.jsonl in `folder` and in its direct subfolders. Throws
/// InputError if there are none.
std::vector<RunRecord> read_runs(const std::string& folder);

/// Median and range of repeated runs.
struct SampleStats {
  double median = 0.0;
  double min = 0.0;
  double max = 0.0;
  int count = 0;
};
/// Returns the spread of `values`; zeros if it is empty.
SampleStats summarize(std::vector<double> values);

/// All runs with the same number of ranks, batch size and variant.
struct ScalingPoint {
  int ranks = 1;
  double batch_size = 0.0;
  std::string variant;
  SampleStats users_per_second;
  /// users/s over `ranks` times that of a single rank with the same users per rank (weak) or per step
  /// (strong)
  SampleStats efficiency;
  std::map<std::string, double> phase_seconds;  ///< medians
  double step_seconds = 0.0;                    ///< median
  double wire_bytes = 0.0;                      ///< bytes that each rank sends in a step
  double bus_rate = 0.0;  ///< wire_bytes over the all-reduce time in bytes/s; 0: no such time
  std::optional<Prediction> predicted;
  double predicted_efficiency = 0.0;  ///< efficiency computed from predictions only
  /// Returns the relative error of the predicted users/s.
  double prediction_error() const {
    return predicted ? predicted->users_per_second / users_per_second.median - 1.0 : 0.0;
  }
};

struct Report {
  std::string version, machine, device, precision;
  int threads = 1;
  int ranks_per_host = 1;
  std::string binding;
  std::vector<std::string> warnings;
  double batch_size = 0.0;      ///< users per step over all ranks in strong scaling
  double users_per_rank = 0.0;  ///< users per step and rank in weak scaling
  std::vector<ScalingPoint> strong, weak;
  StepCost cost;
  Machine probed;  ///< rates measured with the largest number of ranks
  /// The break-even point of the fastest variant that the model supports, at the largest number of ranks.
  struct BreakEven {
    std::string variant;
    int ranks = 1;
    std::optional<double> users;
  };
  std::optional<BreakEven> break_even;
};

/// Makes the report of `runs`, which must not be empty. `batch_size` and `users_per_rank` select the runs of
/// strong and of weak scaling; a run may be part of both. 0 omits that part of the report; a negative value
/// selects the value with the most different numbers of ranks. Throws InputError if there is no single-rank
/// run, or if runs differ in version, device, precision, threads, model or bucket size.
Report make_report(const std::vector<RunRecord>& runs, double batch_size, double users_per_rank);

/// Formats a report for the terminal, as CSV and as JSON.
std::string to_table(const Report& report);
std::string to_csv(const Report& report);
std::string to_json(const Report& report);
/// Formats a report as an HTML page with plots, which loads no other files.
std::string to_html(const Report& report);

/// Formats predictions from the rates of a machine for each number of `ranks`: strong scaling with
/// `config.users` users per step, and weak scaling with `config.users` users per rank and step.
std::string predict_table(const Machine& machine, const Workload& workload, const ParallelConfig& config,
                          const std::vector<int>& ranks);

}  // namespace vaecf::scaling
