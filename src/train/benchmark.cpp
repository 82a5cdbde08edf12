#include <vaecf/base/format.hpp>
#include <vaecf/base/median.hpp>
#include <vaecf/comm/all_reduce_probe.hpp>
#include <vaecf/train/evaluator.hpp>
#include <vaecf/train/session.hpp>
#include <vaecf/train/trainer.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "agreement.hpp"
#include "clock.hpp"
#include "machine.hpp"
#include "run_log.hpp"
#include "selection.hpp"
#include "step_phases.hpp"
#include "step_recorder.hpp"

namespace vaecf::train {
namespace {

constexpr std::int64_t fewest_warm_up_steps = 12;
constexpr std::int64_t fewest_steps = 20;
constexpr std::int64_t steps_by_phase = 40;
// Between two waits, after which a device's queue is empty, which costs.
constexpr std::int64_t fewest_block_steps = 5;
constexpr double block_seconds = 0.05;
constexpr double all_reduce_seconds = 0.8;  // of probing
constexpr double longest_evaluation = 5.0;  // that is done once more, when all is planned and in place

/// Walks through epochs step by step.
class StepWalk {
 public:
  explicit StepWalk(Trainer& trainer) : trainer_(trainer) {}
  void next() {
    const std::int64_t t = done_ % trainer_.steps_per_epoch();
    if (t == 0) trainer_.start_epoch(done_ / trainer_.steps_per_epoch());
    trainer_.step(t);
    ++done_;
  }
  std::int64_t done() const { return done_; }

 private:
  Trainer& trainer_;
  std::int64_t done_ = 0;
};

using PhaseTimes = std::array<std::vector<double>, step_phases.size()>;

/// Of further steps, which a timeline shows.
PhaseTimes measure_phases(Engine& engine, const Trainer& trainer, StepWalk& walk, std::int64_t steps,
                          const std::shared_ptr<Timeline>& timeline) {
  engine.take_times(true);
  StepRecorder recorder(timeline, engine, trainer);
  for (std::int64_t i = 0; i < steps; ++i) walk.next();
  const std::vector<model::StepLap> laps = engine.laps();
  recorder.add(laps);
  PhaseTimes times;
  for (const model::StepSeconds& step : model::seconds_by_step(laps)) {
    for (std::size_t p = 0; p < times.size(); ++p) times[p].push_back(step.*step_phases[p].seconds);
  }
  engine.take_times(false);
  return times;
}

/// One call of benchmark().
class BenchmarkRun {
 public:
  BenchmarkRun(const SessionOptions& options, const Services& services, const io::DatasetFile& dataset)
      : options_(options),
        services_(services),
        dataset_(dataset),
        trainer_(options, services, dataset, evaluation_batch),
        walk_(trainer_) {}

  BenchmarkResult run() {
    warm_up();
    (void)services_.engine.take_staleness();
    measure_steps();
    result_.staleness = services_.engine.take_staleness();
    take_phases(measure_phases(services_.engine, trainer_, walk_, std::min(result_.steps, steps_by_phase),
                               services_.communicator.activity().timeline()));
    if (options_.benchmark.evaluate) measure_evaluation();
    describe_step();
    result_.peak_memory_mib = slowest(peak_memory_mib());
    result_.peak_device_mib = slowest(static_cast<double>(services_.engine.facts().peak_bytes) / 1048576.0);
    result_.data_memory_mib = slowest(static_cast<double>(trainer_.facts().shard_bytes) / 1048576.0);
    // Last, as they take memory of their own.
    services_.communicator.barrier();
    result_.gemm_gflops = services_.communicator.all_reduce(services_.engine.measure(Rate::products));
    services_.communicator.barrier();
    result_.memory_rate_gbytes = services_.communicator.all_reduce(services_.engine.measure(Rate::memory));
    result_.all_reduce =
        services_.engine.measure_all_reduce(services_.communicator, sizes_to_probe(), all_reduce_seconds);
    result_.machine = machine_description() + "; " + services_.engine.facts().description;
    return result_;
  }

 private:
  double slowest(double value) const {
    return services_.communicator.all_reduce(value, comm::Reduction::max);
  }

  /// That of all gradients among them, which is where most bytes go.
  std::vector<std::int64_t> sizes_to_probe() {
    std::vector<std::int64_t> sizes = comm::all_reduce_sizes();
    const auto gradients = trainer_.facts().flat_elements * static_cast<std::int64_t>(sizeof(float));
    const auto place = std::ranges::lower_bound(sizes, gradients);
    if (place != sizes.end() && *place != gradients) sizes.insert(place, gradients);
    return sizes;
  }

  /// Those of one rank, so that they add up to a step: of the one that computes longest, for which others
  /// wait.
  void take_phases(const PhaseTimes& times) {
    std::array<double, step_phases.size()> mine{};
    double compute = 0.0;
    for (std::size_t p = 0; p < mine.size(); ++p) {
      mine[p] = median(times[p]);
      const bool waits = step_phases[p].seconds == &model::StepSeconds::reduce;
      const bool updates = step_phases[p].seconds == &model::StepSeconds::update;
      if (!waits && !updates) compute += mine[p];
    }
    // A server computes nothing, and waits for all that workers do; theirs are the updates.
    const double longest = slowest(trainer_.facts().works ? compute : 0.0);
    const int claim = trainer_.facts().works && compute >= longest ? services_.communicator.rank() : -1;
    const auto chosen =
        static_cast<int>(services_.communicator.all_reduce(std::int64_t{claim}, comm::Reduction::max));
    std::array<double, step_phases.size()> theirs = mine;
    services_.communicator.broadcast(std::span<double>(theirs), chosen);
    const bool served = options_.distributed.strategy == comm::Strategy::parameter_server;
    for (std::size_t p = 0; p < theirs.size(); ++p) {
      const bool updates = step_phases[p].seconds == &model::StepSeconds::update;
      result_.phase_milliseconds[step_phases[p].name] =
          1e3 * (served && updates ? slowest(mine[p]) : theirs[p]);
    }
  }

  /// Past everything that happens once, the last and smaller batch of an epoch included where that is soon.
  void warm_up() {
    std::vector<double> times;
    const auto step = [&] {
      const auto begin = Clock::now();
      walk_.next();
      (void)trainer_.losses();
      times.push_back(seconds_since(begin));
    };
    while (walk_.done() < fewest_warm_up_steps) step();
    // The ranks' own clocks must not decide how many steps they take together.
    step_seconds_ = slowest(median(times));
    const std::int64_t steps =
        warm_up_steps(options_.benchmark.warm_up_seconds, step_seconds_, trainer_.steps_per_epoch());
    while (walk_.done() < steps) step();
    step_seconds_ = slowest(median(times));
    result_.warm_up_steps = walk_.done();
  }

  void measure_steps() {
    const std::int64_t planned = options_.train.epochs * trainer_.steps_per_epoch();
    const double step = std::max(step_seconds_, 1e-6);
    const auto affordable = static_cast<std::int64_t>(options_.benchmark.seconds / step);
    const std::int64_t steps = std::max(fewest_steps, std::min(planned, affordable));
    const std::int64_t block = std::max(
        fewest_block_steps, std::min(steps / 4, static_cast<std::int64_t>(std::ceil(block_seconds / step))));

    std::vector<double> step_times;
    const std::int64_t users_before = trainer_.users_seen();
    services_.progress.begin("benchmark", steps, "steps");
    services_.communicator.barrier();
    const auto begin = Clock::now();
    auto block_begin = begin;
    for (std::int64_t i = 1; i <= steps; ++i) {
      walk_.next();
      services_.progress.update(i);
      if (i % block != 0) continue;
      (void)trainer_.losses();
      step_times.push_back(seconds_since(std::exchange(block_begin, Clock::now())) /
                           static_cast<double>(block));
    }
    (void)trainer_.losses();
    const double seconds = slowest(seconds_since(begin));
    services_.progress.end();

    result_.steps = steps;
    const auto users = static_cast<double>(trainer_.users_seen() - users_before);
    result_.users_per_step = users / static_cast<double>(steps);
    result_.users_per_second = users / seconds;
    result_.seconds_per_epoch = static_cast<double>(trainer_.users_per_epoch()) / result_.users_per_second;
    result_.milliseconds_per_step = 1e3 * slowest(median(step_times));
    // Each weight of a dense layer costs 2 operations per user forward and 4 backward; the input table, whose
    // products are sparse gathers, is not counted.
    result_.gflops = 6e-9 * static_cast<double>(model::dense_weights(trainer_.model().tensors())) *
                     result_.users_per_second;
    result_.memory_gbytes = 1e-9 * services_.communicator.all_reduce(trainer_.facts().update_bytes) *
                            static_cast<double>(steps) / seconds;
  }

  void describe_step() {
    result_.parameters = static_cast<double>(model::parameter_count(trainer_.model().tensors()));
    result_.dense_weights = static_cast<double>(model::dense_weights(trainer_.model().tensors()));
    result_.update_bytes = trainer_.facts().update_bytes;
    result_.wire = trainer_.facts().wire;
    result_.overlap = trainer_.facts().overlaps;
    result_.ranks_per_gpu = ranks_on_one_device();
    result_.usable_cores = cores_of_ranks(services_.communicator);
  }

  /// The most ranks that compute on one device; 0 where devices are not told apart, as on the CPU.
  std::int64_t ranks_on_one_device() {
    const std::string id = services_.engine.facts().id;
    // Ids of GPUs hold for the whole world; two that meet in a hash would raise a false alarm, no more.
    const auto mine = static_cast<std::int64_t>(id.empty() ? 0 : std::hash<std::string>{}(id) | 1);
    std::vector<std::int64_t> all(static_cast<std::size_t>(services_.communicator.size()));
    services_.communicator.all_gather(std::span<const std::int64_t>(&mine, 1), std::span<std::int64_t>(all));
    const std::int64_t here = id.empty() ? 0 : std::count(all.begin(), all.end(), mine);
    return services_.communicator.all_reduce(here, comm::Reduction::max);
  }

  /// Full ranking of the held-out users by all ranks; nothing where nobody is held out.
  void measure_evaluation() {
    const std::string split = dataset_.entries("validation/held_out") > 0 ? "validation" : "test";
    if (dataset_.entries(split + "/held_out") == 0) return;
    Evaluator evaluator(dataset_, split, evaluated_metrics(options_.validation), services_);
    model::Model& model = trainer_.model();
    double seconds = 0.0;
    for (int round = 0; round < 2 && seconds < longest_evaluation; ++round) {
      services_.communicator.barrier();
      const auto begin = Clock::now();
      evaluator.evaluate(model);
      seconds = slowest(seconds_since(begin));
    }
    result_.evaluation_users = evaluator.users();
    result_.evaluation_milliseconds = 1e3 * seconds;
    result_.evaluation_users_per_second = static_cast<double>(evaluator.users()) / seconds;
  }

  const SessionOptions& options_;
  const Services& services_;
  const io::DatasetFile& dataset_;
  Trainer trainer_;
  StepWalk walk_;
  double step_seconds_ = 0.0;  // of a step that is waited for
  BenchmarkResult result_;
};

/// What a timing has to be read with, beside the machine.
void add_setting(io::Event& event, const SessionOptions& options, const Services& services,
                 const BenchmarkResult& result) {
  event.set("version", options.version)
      .set("ranks_per_host", std::int64_t{services.communicator.local_size()})
      .set("cores", cores_of_host())
      .set("usable_cores", result.usable_cores)
      .set("bound_cores", cores_of_process())
      .set("ranks_per_gpu", result.ranks_per_gpu)
      .set("strategy", to_string(options.distributed.strategy))
      .set("optimizer", to_string(options.distributed.optimizer))
      .set("wire", to_string(options.distributed.wire))
      .set("overlap", result.overlap ? "on" : "off")
      .set("bucket_mib", options.distributed.bucket_mib)
      .set("virtual_shards", options.data.virtual_shards);
  if (options.distributed.strategy == comm::Strategy::parameter_server) {
    event.set("servers", std::int64_t{options.distributed.servers})
        .set("server_updates", to_string(options.distributed.updates));
  }
  add_wire(event, result.wire);
  event.set("parameters", result.parameters)
      .set("dense_weights", result.dense_weights)
      .set("update_bytes", result.update_bytes);
}

io::Event event_of(const SessionOptions& options, const Services& services, const BenchmarkResult& result) {
  const DeviceFacts device = services.engine.facts();
  io::Event event("benchmark");
  event.set("machine", result.machine)
      .set("host", services.communicator.host())
      .set("ranks", std::int64_t{services.communicator.size()})
      .set("threads", std::int64_t{device.threads})
      .set("device", device.device)
      .set("precision", vaecf::to_string(device.precision))
      .set("batch_size", options.train.batch_size)
      .set("warm_up_steps", result.warm_up_steps)
      .set("steps", result.steps)
      .set("users_per_step", result.users_per_step)
      .set("users_per_second", result.users_per_second)
      .set("seconds_per_epoch", result.seconds_per_epoch)
      .set("milliseconds_per_step", result.milliseconds_per_step);
  for (const auto& [name, value] : result.phase_milliseconds) event.set(name + "_ms", value);
  add_setting(event, options, services, result);
  if (result.staleness) add_staleness(event, *result.staleness);
  event.set("gflops", result.gflops)
      .set("gemm_gflops", result.gemm_gflops)
      .set("gemm_share", result.gemm_share())
      .set("memory_gbytes", result.memory_gbytes)
      .set("memory_rate_gbytes", result.memory_rate_gbytes)
      .set("memory_share", result.memory_share())
      .set("peak_memory_mib", result.peak_memory_mib)
      .set("peak_device_mib", result.peak_device_mib)
      .set("data_memory_mib", result.data_memory_mib);
  if (result.evaluation_users > 0) {
    event.set("evaluation_users", result.evaluation_users)
        .set("evaluation_ms", result.evaluation_milliseconds)
        .set("evaluation_users_per_second", result.evaluation_users_per_second);
  }
  if (!result.all_reduce.empty()) {
    io::Json sizes = io::Json::array();
    for (const comm::AllReduceTime& time : result.all_reduce) {
      sizes.push_back({{"bytes", time.bytes}, {"seconds", time.seconds}});
    }
    event.set("all_reduce", sizes);
  }
  return event;
}

}  // namespace

BenchmarkResult benchmark(const SessionOptions& options, const Services& services) {
  const io::DatasetFile dataset(options.data.file);
  require_same(services.communicator, dataset.fingerprint(), format("the dataset {}", options.data.file));
  const BenchmarkResult result = BenchmarkRun(options, services, dataset).run();
  on_root(services.communicator, [&] {
    RunLog log(options, services, RunLog::Mode::append);
    log.write(event_of(options, services, result));
    log.finish();
  });
  return result;
}

std::int64_t warm_up_steps(double seconds, double step_seconds, std::int64_t steps_per_epoch) {
  const double affordable = std::ceil(seconds / std::max(step_seconds, 1e-6));
  return std::max(fewest_warm_up_steps,
                  static_cast<std::int64_t>(std::min(static_cast<double>(steps_per_epoch), affordable)));
}

}  // namespace vaecf::train
