#include <vaecf/scaling/report.hpp>

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/base/median.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <tuple>

namespace vaecf::scaling {
namespace {

using Runs = std::vector<const RunRecord*>;

std::vector<double> values_of(const Runs& runs, const std::function<double(const RunRecord&)>& value) {
  std::vector<double> values;
  for (const RunRecord* run : runs) values.push_back(value(*run));
  return values;
}

Runs select_runs(const std::vector<RunRecord>& runs, const std::function<bool(const RunRecord&)>& holds) {
  Runs found;
  for (const RunRecord& run : runs) {
    if (holds(run)) found.push_back(&run);
  }
  return found;
}

/// Throws InputError if runs differ in anything but ranks and batch size, since the differences would be
/// attributed to the number of ranks.
void require_same_settings(const std::vector<RunRecord>& runs) {
  const RunRecord& first = runs.front();
  for (const RunRecord& run : runs) {
    const auto compare = [&](const char* what, const auto& a, const auto& b) {
      if (a == b) return;
      throw InputError(
          format("these runs cannot be compared: {} is {} with {} ranks and {} with {}; "
                 "keep runs with other settings in another folder",
                 what, a, first.ranks, b, run.ranks));
    };
    compare("precision", first.precision, run.precision);
    compare("device", first.device, run.device);
    compare("the number of threads per rank", first.threads, run.threads);
    compare("the number of parameters", first.workload.parameters, run.workload.parameters);
    compare("the version", first.version, run.version);
    compare("distributed.bucket_mib", first.bucket_bytes / 1048576.0, run.bucket_bytes / 1048576.0);
  }
}

/// Returns the rate of each of `ranks` busy ranks as a fraction of that of a single-rank run.
double rate_share(const Runs& alone, const Runs& together, int ranks, double RunRecord::*rate) {
  const double one = median(values_of(alone, [&](const RunRecord& run) { return run.*rate; }));
  const double all = median(values_of(together, [&](const RunRecord& run) { return run.*rate; }));
  return one > 0.0 && all > 0.0 ? all / (ranks * one) : 1.0;
}

/// The parameters of the performance model, fitted to the single-rank runs and the measured rates.
class Probes {
 public:
  explicit Probes(const std::vector<RunRecord>& runs)
      : runs_(runs), alone_(select_runs(runs, [](const RunRecord& run) { return run.ranks == 1; })) {
    if (alone_.empty()) {
      throw InputError(
          "there is no single-rank run, which efficiency is relative to; add one (launch/scaling --ranks 1,...)");
    }
    // Step times follow from users/s of complete epochs, including their smaller last steps. Medians over
    // repeats exclude outliers.
    std::map<double, Runs> sizes;
    for (const RunRecord* run : alone_) sizes[run->batch_size].push_back(run);
    for (const auto& [size, repeats] : sizes) {
      const double users =
          median(values_of(repeats, [](const RunRecord& run) { return run.users_per_step; }));
      steps_.push_back({users, users / median(values_of(repeats, [](const RunRecord& run) {
                                 return run.users_per_second;
                               }))});
    }
  }

  StepCost cost() const { return cost_of(alone_, 1); }

  /// Returns the cost of a rank among `ranks` busy ranks, from the rates measured with all of them.
  StepCost cost(int ranks) const {
    if (ranks == 1) return cost();
    const Runs together = of(ranks);
    StepCost cost = cost_of(together, ranks);
    const double slower = 1.0 / std::max(1e-3, rate_share(alone_, together, ranks, &RunRecord::gemm_rate));
    cost.fixed *= slower;
    cost.per_user *= slower;
    return cost;
  }

  Machine machine(int ranks) const {
    Machine machine;
    const Runs together = of(ranks);
    const RunRecord& run = together.empty() ? *alone_.front() : *together.front();
    machine.name = run.machine;
    machine.ranks_per_host = std::max(1, run.ranks_per_host);
    machine.flops = median(values_of(together, [](const RunRecord& r) { return r.gemm_rate; })) / ranks;
    machine.memory_rate =
        median(values_of(together, [](const RunRecord& r) { return r.memory_rate; })) / ranks;
    // On CPUs, communication needs the compute cores.
    machine.overlap = run.device == "cuda" ? 1.0 : 0.0;
    std::vector<MeasuredAllReduce> probes;
    for (const RunRecord* r : together)
      probes.insert(probes.end(), r->all_reduce.begin(), r->all_reduce.end());
    if (const auto link = fit_link(probes, ranks)) machine.within_host = machine.between_hosts = *link;
    return machine;
  }

  bool has_link(int ranks) const { return ranks == 1 || machine(ranks).within_host.bandwidth > 0.0; }

 private:
  Runs of(int ranks) const {
    return select_runs(runs_, [&](const RunRecord& run) { return run.ranks == ranks; });
  }
  StepCost cost_of(const Runs& runs, int ranks) const {
    const double rate = median(values_of(runs, [](const RunRecord& run) { return run.memory_rate; })) / ranks;
    const double alone_rate = median(values_of(alone_, [](const RunRecord& run) { return run.memory_rate; }));
    const Workload& work = alone_.front()->workload;
    const double bytes = update_bytes(work);
    const double alone_bytes = alone_.front()->single_rank_update_bytes;
    return fit_step_cost(steps_, rate > 0.0 ? bytes / rate : 0.0,
                         alone_rate > 0.0 ? alone_bytes / alone_rate : 0.0);
  }

  const std::vector<RunRecord>& runs_;
  Runs alone_;
  std::vector<MeasuredStep> steps_;
};

ParallelConfig config_of(const RunRecord& run) {
  return {run.ranks,           run.users_per_step, run.optimizer == "sharded", run.wire == "bf16",
          run.overlap == "on", run.bucket_bytes,   run.virtual_shards};
}

/// Returns whether the model, which is that of a ring, supports the run; it does not support parameter
/// servers.
bool is_modeled(const RunRecord& run) {
  return run.servers == 0;
}

ScalingPoint point_of(const Runs& runs, const Probes& probes) {
  const RunRecord& first = *runs.front();
  ScalingPoint point;
  point.ranks = first.ranks;
  point.batch_size = first.batch_size;
  point.variant = first.variant();
  point.users_per_second =
      summarize(values_of(runs, [](const RunRecord& run) { return run.users_per_second; }));
  point.step_seconds = median(values_of(runs, [](const RunRecord& run) { return run.step_seconds; }));
  for (const auto& [phase, seconds] : first.phase_seconds) {
    point.phase_seconds[phase] =
        median(values_of(runs, [&](const RunRecord& run) { return run.phase_seconds.at(phase); }));
  }
  point.wire_bytes = first.wire_bytes;
  const double waiting = point.phase_seconds["all-reduce"];
  if (point.ranks > 1 && waiting > 0.0) point.bus_rate = point.wire_bytes / waiting;
  if (is_modeled(first) && probes.cost().known() && probes.has_link(first.ranks)) {
    ParallelConfig config = config_of(first);
    config.users = median(values_of(runs, [](const RunRecord& run) { return run.users_per_step; }));
    point.predicted = predict(probes.cost(first.ranks), first.workload, probes.machine(first.ranks), config);
  }
  return point;
}

/// Returns the points of the runs selected by `belongs`, by ranks and variant. `alone` is the batch size of
/// the single-rank baseline. Throws InputError if that is missing.
std::vector<ScalingPoint> points_of(const std::vector<RunRecord>& runs, const Probes& probes, double alone,
                                    const std::function<bool(const RunRecord&)>& belongs) {
  std::map<std::tuple<std::string, int>, Runs> groups;
  for (const RunRecord* run : select_runs(runs, belongs)) groups[{run->variant(), run->ranks}].push_back(run);
  std::vector<ScalingPoint> points;
  for (const auto& [key, group] : groups) points.push_back(point_of(group, probes));
  const auto base =
      std::find_if(points.begin(), points.end(), [](const ScalingPoint& p) { return p.ranks == 1; });
  if (base == points.end()) {
    throw InputError(format(
        "there is no single-rank run with {:.0f} users per step; add one, or choose another size", alone));
  }
  const double one = base->users_per_second.median;
  const double one_predicted = base->predicted ? base->predicted->users_per_second : 0.0;
  for (ScalingPoint& point : points) {
    const SampleStats& speed = point.users_per_second;
    const double ideal = point.ranks * one;
    point.efficiency = {speed.median / ideal, speed.min / ideal, speed.max / ideal, speed.count};
    if (point.predicted && one_predicted > 0.0) {
      point.predicted_efficiency = point.predicted->users_per_second / (point.ranks * one_predicted);
    }
  }
  std::stable_sort(points.begin(), points.end(),
                   [](const ScalingPoint& a, const ScalingPoint& b) { return a.ranks < b.ranks; });
  return points;
}

/// Returns the value of `users` (per step, or per step and rank) that a single rank and the most other
/// numbers of ranks ran with; the larger one if there are several. Returns 0 if there is none.
double best_scaled_amount(const std::vector<RunRecord>& runs,
                          const std::function<double(const RunRecord&)>& users) {
  std::map<double, std::set<int>> ranks;
  for (const RunRecord& run : runs) ranks[std::round(users(run))].insert(run.ranks);
  double best = 0.0;
  std::size_t most = 1;
  for (const auto& [amount, counts] : ranks) {
    if (!counts.contains(1) || counts.size() < std::max<std::size_t>(most, 2)) continue;
    most = counts.size();
    best = amount;
  }
  return best;
}

using Warnings = std::vector<std::string>;

/// Adds a warning unless it is already present.
void add(Warnings& warnings, std::string text) {
  if (std::find(warnings.begin(), warnings.end(), text) == warnings.end())
    warnings.push_back(std::move(text));
}

void warn_of_placement(const std::vector<RunRecord>& runs, Warnings& warnings) {
  for (const RunRecord& run : runs) {
    const int threads = run.ranks_per_host * run.threads;
    if (run.device == "cpu" && run.usable_cores > 0 && threads > run.usable_cores) {
      add(warnings,
          format("{} ranks of {} threads share {} of the {} cores of {}: their results do not show scaling",
                 run.ranks_per_host, run.threads, run.usable_cores, run.cores, run.host));
    }
    if (run.ranks_per_gpu > 1) {
      add(warnings, format("{} of {} ranks share one GPU: their results do not show scaling",
                           run.ranks_per_gpu, run.ranks));
    }
    if (run.device == "cpu" && run.bound_cores > 0 && run.bound_cores < run.threads) {
      add(warnings, format("with {} ranks the launcher bound each to {} cores, fewer than its {} threads",
                           run.ranks, run.bound_cores, run.threads));
    }
    if (run.machine != runs.front().machine) {
      add(warnings, format("runs are of different machines: {}; and: {}", runs.front().machine, run.machine));
    }
  }
}

void warn_about_batch_sizes(const std::vector<RunRecord>& runs, Warnings& warnings) {
  constexpr double nearly = 0.95;
  std::set<double> alone;
  for (const RunRecord& run : runs) {
    if (run.ranks == 1) alone.insert(run.batch_size);
    if (run.users_per_step >= nearly * run.batch_size) continue;
    add(warnings,
        format(
            "a batch of {:.0f} does not divide an epoch well, or exceeds it: the measured steps have {:.0f} users on average",
            run.batch_size, run.users_per_step));
  }
  if (alone.size() == 1) {
    add(warnings,
        format(
            "single-rank runs have only one batch size ({:.0f} users per step), so fixed and per-user cost cannot be separated; predictions attribute all of it to the users",
            *alone.begin()));
  }
}

Warnings warnings_of(const std::vector<RunRecord>& runs, const Probes& probes) {
  Warnings warnings;
  warn_of_placement(runs, warnings);
  warn_about_batch_sizes(runs, warnings);
  if (!probes.cost().known()) {
    add(warnings,
        "single-rank step times do not grow with the batch size, so nothing is predicted; "
        "measure longer (--seconds)");
  }
  std::set<int> unknown;
  for (const RunRecord& run : runs) {
    if (!probes.has_link(run.ranks) && unknown.insert(run.ranks).second) {
      add(warnings,
          format(
              "latency and bandwidth cannot be separated from the all-reduces of {} ranks: nothing is predicted for them",
              run.ranks));
    }
  }
  std::map<std::tuple<int, double, std::string>, int> repeats;
  for (const RunRecord& run : runs) ++repeats[{run.ranks, run.batch_size, run.variant()}];
  if (std::any_of(repeats.begin(), repeats.end(), [](const auto& entry) { return entry.second < 3; })) {
    add(warnings, "fewer than three repeats of some point: its spread is unknown");
  }
  return warnings;
}

/// Returns the break-even point of the fastest run that the model supports with `most` ranks.
std::optional<Report::BreakEven> break_even_of(const std::vector<RunRecord>& runs, const Probes& probes,
                                               int most) {
  const Runs known =
      select_runs(runs, [&](const RunRecord& run) { return run.ranks == most && is_modeled(run); });
  if (most < 2 || known.empty() || !probes.cost().known() || !probes.has_link(most)) return std::nullopt;
  const RunRecord& best = **std::max_element(
      known.begin(), known.end(), [](auto* a, auto* b) { return a->users_per_second < b->users_per_second; });
  return Report::BreakEven{
      best.variant(), most,
      break_even_users_per_rank(probes.cost(most), best.workload, probes.machine(most), config_of(best))};
}

}  // namespace

SampleStats summarize(std::vector<double> values) {
  if (values.empty()) return {};
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {median(values), *low, *high, static_cast<int>(values.size())};
}

Report make_report(const std::vector<RunRecord>& runs, double batch_size, double users_per_rank) {
  require_same_settings(runs);
  if (batch_size < 0.0)
    batch_size = best_scaled_amount(runs, [](const RunRecord& run) { return run.batch_size; });
  if (users_per_rank < 0.0) {
    users_per_rank =
        best_scaled_amount(runs, [](const RunRecord& run) { return run.batch_size / run.ranks; });
  }
  const Probes probes(runs);
  Report report;
  const RunRecord& most = *std::max_element(
      runs.begin(), runs.end(), [](const RunRecord& a, const RunRecord& b) { return a.ranks < b.ranks; });
  report.version = most.version;
  report.machine = most.machine;
  report.device = most.device;
  report.precision = most.precision;
  report.threads = most.threads;
  report.ranks_per_host = most.ranks_per_host;
  report.binding = most.bound_cores > 0 && most.bound_cores < most.cores
                       ? format("each rank bound to {} of {} cores", most.bound_cores, most.cores)
                       : format("ranks not bound, {} cores per host", most.cores);
  report.warnings = warnings_of(runs, probes);
  report.batch_size = batch_size;
  report.users_per_rank = users_per_rank;
  const auto same = [](double a, double b) { return std::abs(a - b) < 0.5; };
  if (batch_size > 0.0) {
    report.strong = points_of(runs, probes, batch_size,
                              [&](const RunRecord& run) { return same(run.batch_size, batch_size); });
  }
  if (users_per_rank > 0.0) {
    report.weak = points_of(runs, probes, users_per_rank, [&](const RunRecord& run) {
      return same(run.batch_size, users_per_rank * run.ranks);
    });
  }
  report.cost = probes.cost();
  report.probed = probes.machine(most.ranks);
  report.break_even = break_even_of(runs, probes, most.ranks);
  return report;
}

}  // namespace vaecf::scaling
