#include <vaecf/scaling/performance_model.hpp>

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace vaecf::scaling {
namespace {

// Memory traffic per element of the casts to bf16 and back.
constexpr double rounding_bytes = 12.0;
constexpr double flop_per_weight = 6.0;  // 2 forward, 4 backward
// Fraction of the forward and backward time after the output layer's weight gradient is complete: the
// gradient of the hidden layer, a third of the arithmetic, and the layers before it.
constexpr double after_first_gradient = 0.35;
constexpr double break_even_gain = 1.1;  // minimum speedup by twice the ranks
constexpr double same_sizes = 0.01;      // variance over squared mean below which sizes count as equal
constexpr double clearly_longer = 2.0;

/// The line offset + slope * x, with offset >= 0.
struct Line {
  double offset = 0.0;
  double slope = 0.0;
};
struct Sample {
  double x, y, weight;
};
/// Fits a line by weighted least squares. If all x are equal, the offset is `offset_if_one`.
Line fit(std::span<const Sample> samples, double offset_if_one) {
  double weights = 0.0;
  double x_mean = 0.0;
  double y_mean = 0.0;
  for (const Sample& s : samples) {
    weights += s.weight;
    x_mean += s.weight * s.x;
    y_mean += s.weight * s.y;
  }
  x_mean /= weights;
  y_mean /= weights;
  double covariance = 0.0;
  double variance = 0.0;
  for (const Sample& s : samples) {
    covariance += s.weight * (s.x - x_mean) * (s.y - y_mean);
    variance += s.weight * (s.x - x_mean) * (s.x - x_mean);
  }
  if (variance <= same_sizes * weights * x_mean * x_mean) {
    const double offset = std::min(offset_if_one, y_mean);
    return {offset, (y_mean - offset) / x_mean};
  }
  const double slope = covariance / variance;
  const double offset = y_mean - slope * x_mean;
  if (offset >= 0.0) return {offset, slope};
  // A negative offset is impossible: fit a line through the origin instead.
  return {0.0, (covariance + weights * x_mean * y_mean) / (variance + weights * x_mean * x_mean)};
}

double rounds(int ranks) {
  return 2.0 * (ranks - 1.0);
}

/// Returns the latency in seconds of a ring all-reduce of one bucket: two passes (reduce-scatter and
/// all-gather) of R - 1 hops, of which one per host goes to another host.
double ring_latency(const Machine& machine, int ranks) {
  const int hosts = (ranks + machine.ranks_per_host - 1) / machine.ranks_per_host;
  const int between = hosts > 1 ? std::min(hosts, ranks - 1) : 0;
  return 2.0 * (between * machine.between_hosts.latency +
                std::max(0, ranks - 1 - between) * machine.within_host.latency);
}

/// Returns the users per step of the rank with the most users.
double max_users_per_rank(const ParallelConfig& config) {
  const int shards = config.virtual_shards;
  if (shards < config.ranks) return config.users / config.ranks;
  const int most = (shards + config.ranks - 1) / config.ranks;
  return config.users * most / shards;
}

double ring_bandwidth(const Machine& machine, int ranks) {
  const bool one_host = ranks <= machine.ranks_per_host;
  return one_host ? machine.within_host.bandwidth
                  : std::min(machine.within_host.bandwidth, machine.between_hosts.bandwidth);
}

}  // namespace

StepCost step_cost(const Machine& machine, const Workload& workload) {
  const double update = update_bytes(workload) / machine.memory_rate;
  return {machine.step_overhead,
          flop_per_weight * workload.dense_weights / machine.flops +
              workload.bytes_per_user / machine.memory_rate,
          update, update};
}

StepCost fit_step_cost(std::span<const MeasuredStep> steps, double update, double update_single_rank) {
  if (steps.empty())
    throw InputError("no steps of a single rank were measured; measure them with mpirun -np 1");
  std::vector<Sample> samples;
  for (const MeasuredStep& step : steps) {
    samples.push_back({step.users, step.seconds, 1.0 / (step.seconds * step.seconds)});
  }
  const Line line = fit(samples, update_single_rank);
  // The update cannot take longer than the part of the step that is independent of users. Caches may make it
  // faster than the memory bandwidth implies, in single-rank and in parallel runs.
  const double alone = std::min(line.offset, update_single_rank);
  const double faster = update_single_rank > 0.0 ? alone / update_single_rank : 1.0;
  return {line.offset - alone, std::max(0.0, line.slope), faster * update, alone};
}

std::optional<Link> fit_link(std::span<const MeasuredAllReduce> probes, int ranks) {
  const auto by_bytes = [](const MeasuredAllReduce& a, const MeasuredAllReduce& b) {
    return a.bytes < b.bytes;
  };
  const auto [small, large] = std::minmax_element(probes.begin(), probes.end(), by_bytes);
  if (ranks < 2 || probes.empty() || small->bytes >= large->bytes) return std::nullopt;
  const auto fastest = [&](double min_bytes) {
    double seconds = std::numeric_limits<double>::infinity();
    for (const MeasuredAllReduce& probe : probes) {
      if (probe.bytes >= min_bytes) seconds = std::min(seconds, probe.seconds);
    }
    return seconds;
  };
  // A shorter message cannot take longer than a longer one, so each time is bounded by those of all larger
  // sizes.
  const double shortest = fastest(0.0);
  const double longest = fastest(large->bytes);
  if (!(shortest > 0.0) || longest < clearly_longer * shortest) return std::nullopt;
  const double moved = rounds(ranks) / ranks * large->bytes;
  return Link{shortest / rounds(ranks), moved / (longest - shortest)};
}

double wire_bytes(const Workload& workload, const ParallelConfig& config) {
  if (config.ranks == 1) return 0.0;
  return rounds(config.ranks) / config.ranks * workload.parameters * (config.bf16_comm ? 2.0 : 4.0);
}

Prediction predict(const StepCost& cost, const Workload& workload, const Machine& machine,
                   const ParallelConfig& config) {
  Prediction result;
  result.compute = cost.fixed + cost.per_user * max_users_per_rank(config);
  result.update =
      config.ranks == 1 ? cost.update_single_rank : cost.update / (config.sharded ? config.ranks : 1);
  if (config.ranks > 1) {
    result.wire_bytes = wire_bytes(workload, config);
    const double buckets = std::max(1.0, std::ceil(4.0 * workload.parameters / config.bucket_bytes));
    result.communication = buckets * ring_latency(machine, config.ranks) +
                           result.wire_bytes / ring_bandwidth(machine, config.ranks);
    if (config.bf16_comm) result.communication += workload.parameters * rounding_bytes / machine.memory_rate;
    // The gradient of the input embedding, half of all elements, is complete only at the end. The all-gather
    // of weights after a sharded update cannot be hidden.
    const double early = config.sharded ? 0.25 : 0.5;
    const double hidden = config.overlap ? machine.overlap * after_first_gradient * result.compute : 0.0;
    result.communication -= std::min(early * result.communication, hidden);
  }
  result.seconds = result.compute + result.update + result.communication;
  result.users_per_second = config.users / result.seconds;
  return result;
}

std::optional<double> break_even_users_per_rank(const StepCost& cost, const Workload& workload,
                                                const Machine& machine, ParallelConfig config) {
  const int ranks = config.ranks;
  config.virtual_shards = 0;
  const auto scales = [&](double users_per_rank) {
    config.users = users_per_rank * ranks;
    config.ranks = ranks;
    const double now = predict(cost, workload, machine, config).users_per_second;
    config.ranks = 2 * ranks;
    return predict(cost, workload, machine, config).users_per_second >= break_even_gain * now;
  };
  double low = 1.0;
  double high = 1e8;
  if (scales(low)) return 0.0;
  if (!scales(high)) return std::nullopt;
  while (high / low > 1.001) {
    const double middle = std::sqrt(low * high);
    (scales(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace vaecf::scaling
