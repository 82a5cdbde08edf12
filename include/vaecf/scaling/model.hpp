#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// How far data parallelism carries: what a step costs on one rank, what ranks have to exchange, and what
/// follows for any number of them. docs/SCALING.md derives it.
namespace vaecf::scaling {

/// What one step asks of a rank, whatever the machine. The widths are those of Mult-VAE's output layer and
/// all others together: `dense_weights` counts the weights of all layers that are products.
struct Workload {
  double parameters = 0.0;
  double dense_weights = 0.0;
  double bytes_per_user = 0.0;  ///< to and from memory, for activations, logits and gathered rows
  double narrow_bytes = 0.0;    ///< of the copy of one weight that products read: 2 in bf16 and fp16, else 0
};

/// To and from memory by an update of all weights from summed gradients there: weights and two moments in and
/// out, gradients in and out, narrow copies out.
inline double update_bytes(const Workload& workload) {
  return workload.parameters * (32.0 + workload.narrow_bytes);
}

/// A way between ranks: a message of n bytes takes latency + n / bandwidth.
struct Link {
  double latency = 0.0;    ///< seconds
  double bandwidth = 0.0;  ///< bytes a second and rank, as "bus bandwidth"
};

/// A rank's share of a machine while all ranks of its host are at work.
struct Machine {
  std::string name;
  int ranks_per_host = 1;
  double flops = 0.0;          ///< floating-point operations a second that products reach
  double memory_rate = 0.0;    ///< bytes a second
  double step_overhead = 0.0;  ///< seconds of a step that nothing else explains
  /// The share of the time after the output layer's gradient is known in which ranks can exchange it for
  /// nothing: 1 where the network works by itself, 0 where it needs the same cores.
  double overlap = 0.0;
  Link within_host;
  Link between_hosts;
};

/// Seconds of one rank's step, without any exchange: fixed + per_user * users + an update.
struct StepCost {
  double fixed = 0.0;
  double per_user = 0.0;
  double update = 0.0;        ///< of all weights, from summed gradients in memory
  double update_alone = 0.0;  ///< the same by a lone rank, which may do it while gradients are in cache
  /// Whether anything follows from it: not where measured steps did not tell what a user costs.
  bool known() const { return per_user > 0.0; }
};

/// From a machine's rates: 6 operations a dense weight and user.
StepCost step_cost(const Machine& machine, const Workload& workload);

/// A measured step of a rank that is alone.
struct MeasuredStep {
  double users = 0.0;
  double seconds = 0.0;
};
/// Least squares over steps of a lone rank, of at least two batch sizes for `fixed` to be told from
/// `per_user` (else all but the update counts for users). `update_alone` seconds of them are taken for the
/// update; where that is more than all that does not grow with users, it and `update` were overestimated
/// alike. `per_user` is 0 where steps with more users took no longer: then nothing follows from them.
StepCost fit_step_cost(std::span<const MeasuredStep> steps, double update, double update_alone);

/// A probe of the all-reduce.
struct MeasuredExchange {
  double bytes = 0.0;
  double seconds = 0.0;
};
/// The link that all-reduces of `ranks` ranks show: a ring takes 2 (R - 1) latencies and moves 2 (R - 1) / R
/// of the bytes. The fastest tells the latency, the largest, which no cache holds, the bandwidth. Empty where
/// the largest took hardly longer than the fastest, or there are not two sizes.
std::optional<Link> fit_link(std::span<const MeasuredExchange> probes, int ranks);

/// How ranks work together.
struct Setting {
  int ranks = 1;
  double users = 0.0;  ///< in a step, over all ranks
  bool sharded = false;
  bool bf16_wire = false;
  bool overlap = false;
  double bucket_bytes = 4.0 * 1048576.0;  ///< of gradients in fp32
  /// In which the data is dealt out to ranks, whole: some have one more than others. 0, or fewer than ranks:
  /// all ranks have the same.
  int virtual_shards = 0;
};

struct Prediction {
  double compute = 0.0;   ///< seconds a step, forward and backward
  double update = 0.0;    ///< seconds
  double exchange = 0.0;  ///< seconds that backward does not hide
  double wire_bytes = 0.0;
  double seconds = 0.0;  ///< a step
  double users_per_second = 0.0;
};

/// What every rank sends (and receives) in a step.
double wire_bytes(const Workload& workload, const Setting& setting);

Prediction predict(const StepCost& cost, const Workload& workload, const Machine& machine,
                   const Setting& setting);

/// The users a rank and step below which twice the ranks, for the same users a step, give less than a tenth
/// more users/s; 0 where they always give more, empty where they never do.
std::optional<double> users_where_ranks_stop_paying(const StepCost& cost, const Workload& workload,
                                                    const Machine& machine, Setting setting);

}  // namespace vaecf::scaling
