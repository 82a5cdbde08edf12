#pragma once

#include <vaecf/scaling/model.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// From the `benchmark` events of many runs to one table: what was measured, what the model says, and how far
/// they are apart.
namespace vaecf::scaling {

/// Of a step, in order, as the benchmark names them.
inline constexpr std::array<const char*, 6> phase_names = {"input",    "forward",    "loss",
                                                           "backward", "all-reduce", "optimiser"};

/// One `benchmark` event; docs/SCALING.md says what its fields mean.
struct RunRecord {
  std::string version, machine, host, device, precision;
  std::string optimizer, wire, overlap;
  int servers = 0;  ///< parameter servers among the ranks
  std::string server_updates;
  int ranks = 1;
  int ranks_per_host = 1;
  int threads = 1;
  int ranks_per_gpu = 0;  ///< at most; 0 on the CPU
  int cores = 0;          ///< of the host
  int usable_cores = 0;   ///< of those, what all its ranks together may run on
  int bound_cores = 0;    ///< that a rank may run on
  double batch_size = 0.0;
  double users_per_step = 0.0;  ///< on average: an epoch's last step takes what is left
  int virtual_shards = 0;
  double users_per_second = 0.0;
  double step_seconds = 0.0;
  std::map<std::string, double> phase_seconds;  ///< as the benchmark names them
  double wire_bytes = 0.0;                      ///< that each rank sends in a step
  double bucket_bytes = 0.0;
  double gemm_rate = 0.0;           ///< floating-point operations a second of all ranks at once
  double memory_rate = 0.0;         ///< bytes a second of all ranks at once
  double alone_update_bytes = 0.0;  ///< of all weights by a lone rank
  Workload workload;
  std::vector<MeasuredExchange> all_reduce;

  /// "replicated fp32", "sharded bf16 overlap", "1 server asynchronous fp32"; a lone rank's has no name.
  std::string variant() const;
};

/// All runs whose metrics.jsonl lies in `folder` or in a folder within it. InputError where there is none.
std::vector<RunRecord> read_runs(const std::string& folder);

/// Of repeated runs.
struct Spread {
  double median = 0.0;
  double low = 0.0;
  double high = 0.0;
  int count = 0;
};
Spread spread_of(std::vector<double> values);

/// All runs of one number of ranks, batch size and variant.
struct Point {
  int ranks = 1;
  double batch_size = 0.0;
  std::string variant;
  Spread users_per_second;
  Spread efficiency;  ///< over a lone rank's users/s with as many users a rank (weak) or a step (strong)
  std::map<std::string, double> phase_seconds;  ///< medians
  double step_seconds = 0.0;
  double wire_bytes = 0.0;
  double bus_rate =
      0.0;  ///< bytes a second by which each rank sends while it waits for sums; 0: it never does
  std::optional<Prediction> predicted;
  double predicted_efficiency = 0.0;  ///< by the same baseline, from predictions alone
  /// Predicted over measured users/s, less 1.
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
  double batch_size = 0.0;      ///< over all ranks, of strong scaling
  double users_per_rank = 0.0;  ///< of weak scaling
  std::vector<Point> strong, weak;
  StepCost cost;
  Machine probed;  ///< by the runs with most ranks
  /// users_where_ranks_stop_paying, of the fastest variant that the model knows at most ranks.
  struct StopsPaying {
    std::string variant;
    int ranks = 1;
    std::optional<double> users;
  };
  std::optional<StopsPaying> stops_paying;
};

/// `batch_size` and `users_per_rank` pick the runs of strong and of weak scaling; a run may be of both, and 0
/// leaves one out. Below 0: those with which most numbers of ranks ran. InputError where no lone rank ran, or
/// runs do not belong together (version, precision, threads, model, bucket size differ).
Report make_report(const std::vector<RunRecord>& runs, double batch_size, double users_per_rank);

std::string to_table(const Report& report);
std::string to_csv(const Report& report);
std::string to_json(const Report& report);
/// A page that needs no network.
std::string to_page(const Report& report);

/// Predictions for a machine of which only rates are known, one line a number of ranks: strong scaling at
/// `setting.users` a step, and weak at as many a rank.
std::string predict_table(const Machine& machine, const Workload& workload, const Setting& setting,
                          const std::vector<int>& ranks);

}  // namespace vaecf::scaling
