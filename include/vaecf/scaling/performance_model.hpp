#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// A performance model of data-parallel training: the cost of a step on one rank, the communication volume,
/// and the predicted throughput for any number of ranks. docs/SCALING.md contains the derivation.
namespace vaecf::scaling {

/// The machine-independent cost of a training step.
struct Workload {
  double parameters = 0.0;       ///< number of weights and biases
  double dense_weights = 0.0;    ///< number of weights of all layers that are computed by GEMMs
  double bytes_per_user = 0.0;   ///< memory traffic of activations, logits and gathered rows
  double half_copy_bytes = 0.0;  ///< size of the 16-bit copy of a weight: 2 in bf16 and fp16, otherwise 0
};

/// Returns the memory traffic in bytes of an update of all weights: weights, two moments and gradients are
/// each read and written once, 16-bit copies are written once.
inline double update_bytes(const Workload& workload) {
  return workload.parameters * (32.0 + workload.half_copy_bytes);
}

/// A connection between two ranks (alpha-beta model): a message of n bytes takes latency + n / bandwidth
/// seconds.
struct Link {
  double latency = 0.0;    ///< seconds
  double bandwidth = 0.0;  ///< bus bandwidth in bytes/s per rank
};

/// The rates of one rank while all ranks of its host are busy.
struct Machine {
  std::string name;
  int ranks_per_host = 1;
  double flops = 0.0;          ///< FLOP/s of GEMMs
  double memory_rate = 0.0;    ///< bytes/s
  double step_overhead = 0.0;  ///< fixed seconds per step
  /// The fraction of the time after the output layer's gradient is complete that can hide communication: 1 if
  /// the network works independently, 0 if communication needs the compute cores.
  double overlap = 0.0;
  Link within_host;
  Link between_hosts;
};

/// The seconds of one rank's step without communication: fixed + per_user * users + update.
struct StepCost {
  double fixed = 0.0;
  double per_user = 0.0;
  double update = 0.0;              ///< update of all weights, with gradients in memory
  double update_single_rank = 0.0;  ///< update of a single-rank run, which may use gradients in cache
  /// Returns false if measured steps did not determine the cost of a user, so that no prediction is possible.
  bool known() const { return per_user > 0.0; }
};

/// Computes the step cost from the rates of a machine, with 6 operations per dense weight and user.
StepCost step_cost(const Machine& machine, const Workload& workload);

/// A measured step of a single-rank run.
struct MeasuredStep {
  double users = 0.0;
  double seconds = 0.0;
};
/// Fits fixed and per-user cost to single-rank steps by least squares. At least two batch sizes are needed to
/// separate the two; with one, everything but the update is attributed to the users. `update_single_rank`
/// seconds of the fixed part are attributed to the update. If the fixed part is shorter, `update` and
/// `update_single_rank` are scaled down by the same factor. `per_user` is 0 if steps with more users took no
/// longer. Throws InputError if `steps` is empty.
StepCost fit_step_cost(std::span<const MeasuredStep> steps, double update, double update_single_rank);

/// A measured all-reduce.
struct MeasuredAllReduce {
  double bytes = 0.0;
  double seconds = 0.0;
};
/// Fits a link to all-reduces of `ranks` ranks. A ring has 2 (R - 1) latencies and transfers 2 (R - 1) / R of
/// the bytes. The fastest all-reduce determines the latency; the largest, which exceeds the caches, the
/// bandwidth. Returns nullopt if the largest took less than twice as long as the fastest, or if there are not
/// two sizes.
std::optional<Link> fit_link(std::span<const MeasuredAllReduce> probes, int ranks);

/// The configuration of data parallelism.
struct ParallelConfig {
  int ranks = 1;
  double users = 0.0;  ///< users per step over all ranks
  bool sharded = false;
  bool bf16_comm = false;
  bool overlap = false;
  double bucket_bytes = 4.0 * 1048576.0;  ///< size of an fp32 gradient bucket
  /// Number of virtual shards, which are assigned to ranks as a whole, so that some ranks have one more than
  /// others. If it is less than `ranks`, all ranks have the same number of users.
  int virtual_shards = 0;
};

struct Prediction {
  double compute = 0.0;        ///< seconds per step of the forward and backward pass
  double update = 0.0;         ///< seconds per step of the update
  double communication = 0.0;  ///< seconds per step of communication that the backward pass does not hide
  double wire_bytes = 0.0;     ///< bytes that each rank sends per step
  double seconds = 0.0;        ///< total seconds per step
  double users_per_second = 0.0;
};

/// Returns the bytes that each rank sends in a step, which equal those that it receives.
double wire_bytes(const Workload& workload, const ParallelConfig& config);

/// Predicts a step of `config`. `cost` and `machine` describe one of its ranks.
Prediction predict(const StepCost& cost, const Workload& workload, const Machine& machine,
                   const ParallelConfig& config);

/// Returns the break-even point: the users per rank and step below which doubling the ranks, with the same
/// users per step, increases users/s by less than 10 %. Returns 0 if doubling always gives more, nullopt if
/// it never does.
std::optional<double> break_even_users_per_rank(const StepCost& cost, const Workload& workload,
                                                const Machine& machine, ParallelConfig config);

}  // namespace vaecf::scaling
