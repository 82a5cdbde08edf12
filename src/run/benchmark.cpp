#include <vaecf/base/host.hpp>
#include <vaecf/base/text.hpp>
#include <vaecf/base/timeline.hpp>
#include <vaecf/comm/usable_cores.hpp>
#include <vaecf/io/hash.hpp>
#include <vaecf/models/kind.hpp>
#include <vaecf/run/all_reduce_benchmark.hpp>
#include <vaecf/run/benchmark.hpp>
#include <vaecf/run/events.hpp>
#include <vaecf/run/test.hpp>
#include <vaecf/run/train.hpp>

#include <cmath>
#include <utility>

#include "run/memory.hpp"

namespace vaecf::run {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n == 0 ? 0.0 : 0.5 * (values[(n - 1) / 2] + values[n / 2]);
}

constexpr double bytes_per_mib = 1048576.0;
constexpr std::int64_t min_warm_up_steps = 12;
constexpr std::int64_t min_steps = 20;
constexpr std::int64_t steps_by_phase = 40;
// Steps are timed in blocks, since waiting for the device after each step would slow it down.
constexpr std::int64_t min_block_steps = 5;
constexpr double block_seconds = 0.05;
constexpr double all_reduce_seconds = 0.8;  // time budget of the all-reduce measurement
constexpr double max_evaluation_seconds =
    5.0;  // in seconds; a shorter one is repeated, as the first includes setup

class BenchmarkRun {
 public:
  explicit BenchmarkRun(const Run& run)
      : run_(run), trainer_(run, run.options, run.dataset, run.device.facts().evaluation_batch) {}

  BenchmarkResult run() {
    warm_up();
    (void)trainer_.take_staleness();
    measure_steps();
    staleness_ = trainer_.take_staleness();
    measure_phases(std::min(result_.steps, steps_by_phase));
    if (run_.options.benchmark.evaluate) measure_evaluation();
    result_.comm_volume = trainer_.facts().comm_volume;
    result_.products = run_.device.facts().products;
    result_.peak_memory_mib = slowest(peak_memory_mib());
    result_.peak_device_mib = slowest(static_cast<double>(run_.device.facts().peak_bytes) / bytes_per_mib);
    result_.data_memory_mib = slowest(static_cast<double>(trainer_.facts().data_bytes) / bytes_per_mib);
    // These measurements come last, since they allocate memory, which would change the peaks above.
    const std::int64_t spare = host_memory().available / 2 / run_.communicator.local_size();
    run_.communicator.barrier();
    result_.gemm_gflops = run_.communicator.all_reduce(run_.device.measure(device::Rate::gemm, spare));
    run_.communicator.barrier();
    result_.memory_rate_gbytes =
        run_.communicator.all_reduce(run_.device.measure(device::Rate::memory, spare));
    result_.all_reduce =
        measure_all_reduce(run_.communicator, run_.device, sizes_to_measure(), all_reduce_seconds);
    result_.machine = describe_host() + "; " + run_.device.facts().description;
    return result_;
  }

  /// Returns the result with the configuration that it depends on. Collective.
  io::Event event() {
    const device::DeviceFacts device = run_.device.facts();
    const training::TrainingFacts training = trainer_.facts();
    const std::vector<device::TensorSpec> tensors = trainer_.model().tensors();
    io::Event event(io::EventKind::benchmark);
    event.set("machine", result_.machine)
        .set("host", run_.communicator.host())
        .set("ranks", std::int64_t{run_.communicator.size()})
        .set("threads", std::int64_t{device.threads})
        .set("device", to_string(device.kind))
        .set("precision", vaecf::to_string(device.precision))
        .set("batch_size", run_.options.train.batch_size)
        .set("warm_up_steps", result_.warm_up_steps)
        .set("steps", result_.steps)
        .set("users_per_step", result_.users_per_step)
        .set("users_per_second", result_.users_per_second)
        .set("epoch_seconds", result_.seconds_per_epoch)
        .set("step_seconds", 1e-3 * result_.milliseconds_per_step)
        .set("phase_seconds", phase_seconds())
        .set("version", run_.version)
        .set("ranks_per_host", std::int64_t{run_.communicator.local_size()})
        .set("cores", host_cores())
        .set("usable_cores", comm::usable_cores(run_.communicator))
        .set("bound_cores", process_cores())
        .set("ranks_per_gpu", ranks_on_one_device())
        .set("strategy", to_string(run_.options.distributed.strategy))
        .set("optimizer_state", to_string(run_.options.distributed.optimizer))
        .set("wire", to_string(run_.options.distributed.comm_dtype))
        .set("overlap", training.overlaps)
        .set("bucket_bytes", comm::bucket_bytes(run_.options.distributed, run_.communicator))
        .set("virtual_shards", run_.options.data.virtual_shards)
        .set("item_slices", std::int64_t{run_.item_slices()})
        .set("model_parallel_groups", std::int64_t{run_.model_parallel_groups()})
        .set("exchanged_bytes", training.comm_volume.activations);
    if (uses_parameter_server()) {
      event.set("servers", std::int64_t{run_.options.distributed.servers})
          .set("server_updates", to_string(run_.options.distributed.updates));
    }
    add_comm_volume(event, training.comm_volume);
    event.set("parameters", static_cast<double>(models::parameter_count(tensors)))
        .set("dense_weights", static_cast<double>(models::dense_weights(tensors)))
        .set("items", run_.dataset.items())
        .set("item_widths", item_widths(tensors))
        .set("update_bytes", training.update_bytes);
    if (staleness_) add_staleness(event, *staleness_);
    event.set("flop_per_second", 1e9 * result_.gflops)
        .set("gemm_flop_per_second", 1e9 * result_.gemm_gflops)
        .set("gemm_share", result_.gemm_share())
        .set("memory_bytes_per_second", 1e9 * result_.memory_gbytes)
        .set("memory_peak_bytes_per_second", 1e9 * result_.memory_rate_gbytes)
        .set("memory_share", result_.memory_share())
        .set("peak_memory_bytes", bytes_per_mib * result_.peak_memory_mib)
        .set("peak_device_bytes", bytes_per_mib * result_.peak_device_mib)
        .set("data_memory_bytes", bytes_per_mib * result_.data_memory_mib);
    if (result_.evaluation_users > 0) {
      event.set("evaluation_users", result_.evaluation_users)
          .set("evaluation_seconds", 1e-3 * result_.evaluation_milliseconds)
          .set("evaluation_users_per_second", result_.evaluation_users_per_second);
    }
    if (!result_.products.empty()) event.set("products", result_.products);
    if (!result_.all_reduce.empty()) {
      io::Json sizes = io::Json::array();
      for (const AllReduceTiming& time : result_.all_reduce)
        sizes.push_back({{"bytes", time.bytes}, {"seconds", time.seconds}});
      event.set("all_reduce", sizes);
    }
    return event;
  }

 private:
  /// Returns the seconds of a step by phase.
  io::Json phase_seconds() const {
    io::Json seconds = io::Json::object();
    for (std::string name : device::step_phase_names) {
      const double value = 1e-3 * result_.phase_milliseconds.at(name);
      std::ranges::replace(name, '-', '_');
      seconds[name] = value;
    }
    return seconds;
  }

  double slowest(double value) const { return run_.communicator.all_reduce(value, comm::Reduction::max); }

  /// Returns the default sizes and the size of the complete gradient, if it is within their range.
  std::vector<std::int64_t> sizes_to_measure() {
    std::vector<std::int64_t> sizes = all_reduce_benchmark_sizes();
    const auto gradients = trainer_.facts().flat_elements * static_cast<std::int64_t>(sizeof(float));
    const auto next = std::ranges::lower_bound(sizes, gradients);
    if (next != sizes.end() && *next != gradients) sizes.insert(next, gradients);
    return sizes;
  }

  /// Measures the phases of additional steps, and adds them to the timeline, if any. All times are those of
  /// one rank, so that they add up to a step. It is the rank with the longest compute time, for which the
  /// others wait.
  void measure_phases(std::int64_t steps) {
    using device::StepPhase;
    const std::int64_t updates_before = trainer_.updates_done();
    trainer_.enable_timing(true);
    for (std::int64_t i = 0; i < steps; ++i) next_step();
    const std::vector<device::PhaseInterval> intervals = trainer_.take_phase_intervals();
    trainer_.enable_timing(false);
    if (const auto& timeline = run_.communicator.activity().timeline())
      training::add_phase_intervals(*timeline, intervals, updates_before);
    const std::vector<device::PhaseTimes> taken = device::phase_times_by_step(intervals);
    device::PhaseTimes mine{};
    double compute = 0.0;
    for (std::size_t p = 0; p < mine.size(); ++p) {
      std::vector<double> times;
      for (const device::PhaseTimes& step : taken) times.push_back(step[p]);
      mine[p] = median(times);
      if (p < static_cast<std::size_t>(StepPhase::reduce)) compute += mine[p];
    }
    // A server spends the compute time of its workers waiting, so only workers are candidates. The update
    // time is that of the servers.
    const bool is_worker = trainer_.facts().is_worker;
    const double longest = slowest(is_worker ? compute : 0.0);
    const int claim = is_worker && compute >= longest ? run_.communicator.rank() : -1;
    const auto chosen =
        static_cast<int>(run_.communicator.all_reduce(std::int64_t{claim}, comm::Reduction::max));
    device::PhaseTimes theirs = mine;
    run_.communicator.broadcast(std::span<double>(theirs), chosen);
    if (uses_parameter_server()) {
      auto& updates = theirs[static_cast<std::size_t>(StepPhase::update)];
      updates = slowest(mine[static_cast<std::size_t>(StepPhase::update)]);
    }
    for (std::size_t p = 0; p < theirs.size(); ++p)
      result_.phase_milliseconds[device::step_phase_names[p]] = 1e3 * theirs[p];
  }

  void next_step() {
    const std::int64_t t = trainer_.updates_done() % trainer_.steps_per_epoch();
    if (t == 0) trainer_.start_epoch(trainer_.updates_done() / trainer_.steps_per_epoch());
    trainer_.step(t);
  }

  /// Returns the number of weights of an item without its output bias; 0 if the model has no output table.
  static std::int64_t item_widths(const std::vector<device::TensorSpec>& tensors) {
    std::int64_t input = 0;
    std::int64_t output = 0;
    for (const device::TensorSpec& tensor : tensors) {
      const bool features = tensor.name.ends_with("/feature_weight");
      if (tensor.kind == device::TensorKind::input_table && !features) input += tensor.columns;
      if (tensor.kind == device::TensorKind::output_table) output += tensor.rows;
    }
    return output > 0 ? input + output : 0;
  }

  bool uses_parameter_server() const {
    return run_.options.distributed.strategy == comm::StrategyKind::parameter_server;
  }

  /// Runs warm-up steps, which cover one-time setup, and the smaller last batch of an epoch if the epoch is
  /// short.
  void warm_up() {
    std::vector<double> times;
    const auto step = [&] {
      const auto begin = Clock::now();
      next_step();
      (void)trainer_.losses();
      times.push_back(seconds_since(begin));
    };
    while (trainer_.updates_done() < min_warm_up_steps) step();
    // All ranks must run the same number of steps, so the slowest rank's time decides.
    step_seconds_ = slowest(median(times));
    const std::int64_t steps =
        warm_up_steps(run_.options.benchmark.warm_up_seconds, step_seconds_, trainer_.steps_per_epoch());
    while (trainer_.updates_done() < steps) step();
    step_seconds_ = slowest(median(times));
    result_.warm_up_steps = trainer_.updates_done();
  }

  void measure_steps() {
    const std::int64_t planned = run_.options.train.epochs * trainer_.steps_per_epoch();
    const double step = std::max(step_seconds_, 1e-6);
    const auto affordable = static_cast<std::int64_t>(run_.options.benchmark.seconds / step);
    const std::int64_t steps = std::max(min_steps, std::min(planned, affordable));
    const std::int64_t block = std::max(
        min_block_steps, std::min(steps / 4, static_cast<std::int64_t>(std::ceil(block_seconds / step))));

    std::vector<double> step_times;
    const std::int64_t users_before = trainer_.users_seen();
    run_.progress.begin("benchmark", steps, "steps");
    run_.communicator.barrier();
    const auto begin = Clock::now();
    auto block_begin = begin;
    for (std::int64_t i = 1; i <= steps; ++i) {
      next_step();
      run_.progress.update(i);
      if (i % block != 0) continue;
      (void)trainer_.losses();
      step_times.push_back(seconds_since(std::exchange(block_begin, Clock::now())) /
                           static_cast<double>(block));
    }
    (void)trainer_.losses();
    const double seconds = slowest(seconds_since(begin));
    run_.progress.end();

    result_.steps = steps;
    const auto users = static_cast<double>(trainer_.users_seen() - users_before);
    result_.users_per_step = users / static_cast<double>(steps);
    result_.users_per_second = users / seconds;
    result_.seconds_per_epoch = static_cast<double>(trainer_.users_per_epoch()) / result_.users_per_second;
    result_.milliseconds_per_step = 1e3 * slowest(median(step_times));
    result_.gflops =
        1e-9 * cost_of(models::kind_of(run_.options.model.type), run_).operations * result_.users_per_second;
    result_.memory_gbytes = 1e-9 * run_.communicator.all_reduce(trainer_.facts().update_bytes) *
                            static_cast<double>(steps) / seconds;
  }

  /// Returns the maximum number of ranks per device; 0 if devices have no id, as on the CPU.
  std::int64_t ranks_on_one_device() {
    const std::string id = run_.device.facts().id;
    // Ids are unique over all hosts. A hash collision would only cause a false warning.
    const auto mine = static_cast<std::int64_t>(id.empty() ? 0 : io::xxh64(id) | 1);
    std::vector<std::int64_t> all(run_.communicator.size());
    run_.communicator.all_gather(std::span<const std::int64_t>(&mine, 1), std::span<std::int64_t>(all));
    const std::int64_t here = id.empty() ? 0 : std::count(all.begin(), all.end(), mine);
    return run_.communicator.all_reduce(here, comm::Reduction::max);
  }

  /// Measures the full ranking of the held-out users; does nothing if the dataset has none.
  void measure_evaluation() {
    const std::string split = run_.dataset.entries("validation/held_out") > 0 ? "validation" : "test";
    if (run_.dataset.entries(split + "/held_out") == 0) return;
    evaluate::Evaluator evaluator(run_, run_.dataset, split, run_.options.validation.metrics);
    models::Model& model = trainer_.model();
    evaluator.prepare(model);
    double seconds = 0.0;
    for (int round = 0; round < 2 && seconds < max_evaluation_seconds; ++round) {
      run_.communicator.barrier();
      const auto begin = Clock::now();
      evaluator.evaluate(model);
      seconds = slowest(seconds_since(begin));
    }
    result_.evaluation_users = evaluator.users();
    result_.evaluation_milliseconds = 1e3 * seconds;
    result_.evaluation_users_per_second = static_cast<double>(evaluator.users()) / seconds;
  }

  const Run& run_;
  training::Trainer trainer_;
  double step_seconds_ = 0.0;  // median duration of a step, including waiting for the device
  std::optional<training::Staleness> staleness_;
  BenchmarkResult result_;
};

}  // namespace

BenchmarkResult benchmark(const Run& run) {
  BenchmarkRun measured(run);
  const BenchmarkResult result = measured.run();
  append_event(run, measured.event());
  return result;
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
  for (const std::string name : device::step_phase_names) {
    const auto found = result.phase_milliseconds.find(name);
    if (found != result.phase_milliseconds.end()) table += line("  " + name, found->second, digits, "ms");
  }
  const bool tera = result.gemm_gflops >= 1e4;
  const auto flops = [&](double gflops) { return tera ? 1e-3 * gflops : gflops; };
  // Products that do not depend on the number of users are not counted.
  if (result.gflops > 0.0)
    table += line("dense products", flops(result.gflops), tera ? 1 : 0,
                  format("{}FLOP/s, {:.0f} % of the measured peak ({:.{}f})", tera ? 'T' : 'G',
                         100.0 * result.gemm_share(), flops(result.gemm_gflops), tera ? 1 : 0));
  table += line("weights and moments", result.memory_gbytes, 1,
                format("GB/s, {:.0f} % of the measured peak ({:.1f})", 100.0 * result.memory_share(),
                       result.memory_rate_gbytes));
  if (!result.all_reduce.empty()) {
    const AllReduceTiming& largest = result.all_reduce.back();
    table += line(
        "all-reduce", largest.algorithm_bandwidth(), 2,
        format("GB/s for {:.3g} MiB; {:.1f} us for {} bytes", static_cast<double>(largest.bytes) / 1048576.0,
               1e6 * result.all_reduce.front().seconds, result.all_reduce.front().bytes));
  }
  if (result.comm_volume.total > 0.0)
    table += format("  {:<22}{}\n", "communication/step", format_comm_volume(result.comm_volume));
  if (result.evaluation_users > 0) {
    table += line(
        "full-ranking test", result.evaluation_users_per_second, 0,
        format("users/s, {} users in {:.1f} ms", result.evaluation_users, result.evaluation_milliseconds));
  }
  table += line("peak memory", result.peak_memory_mib, 0, "MiB per rank");
  if (result.peak_device_mib > 0.0)
    table += line("peak GPU memory", result.peak_device_mib, 0, "MiB per rank");
  table += line("data in memory", result.data_memory_mib, 0, "MiB per rank");
  for (const std::string& product : result.products) table += format("  product {}\n", product);
  return table;
}

std::int64_t warm_up_steps(double seconds, double step_seconds, std::int64_t steps_per_epoch) {
  const double affordable = std::ceil(seconds / std::max(step_seconds, 1e-6));
  return std::max(min_warm_up_steps,
                  static_cast<std::int64_t>(std::min(static_cast<double>(steps_per_epoch), affordable)));
}

}  // namespace vaecf::run
