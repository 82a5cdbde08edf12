#include <vaecf/base/format.hpp>
#include <vaecf/train/evaluator.hpp>
#include <vaecf/train/session.hpp>
#include <vaecf/train/trainer.hpp>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "agreement.hpp"
#include "clock.hpp"
#include "run_log.hpp"
#include "selection.hpp"

namespace vaecf::train {
namespace {

constexpr std::int64_t warm_up_steps = 12;  // past the trials of distributed.overlap: auto
constexpr double longest_seconds = 60.0;
constexpr std::int64_t fewest_steps = 20;
constexpr std::int64_t timed_steps = 40;
constexpr std::int64_t block_steps = 5;  // between two waits: a device's queue must not run dry at every step

struct StepPhase {
  const char* name;
  double model::StepSeconds::*seconds;
};
constexpr std::array<StepPhase, 6> phases = {{{"input", &model::StepSeconds::input},
                                              {"forward", &model::StepSeconds::forward},
                                              {"loss", &model::StepSeconds::loss},
                                              {"backward", &model::StepSeconds::backward},
                                              {"all-reduce", &model::StepSeconds::reduce},
                                              {"optimiser", &model::StepSeconds::update}}};

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The most memory that this process ever held; 0 where the system does not tell.
double peak_memory_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024.0;  // given in kB
  }
  return 0.0;
}

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

 private:
  Trainer& trainer_;
  std::int64_t done_ = 0;
};

using PhaseTimes = std::array<std::vector<double>, phases.size()>;

/// Further steps, each phase of them waited for.
PhaseTimes measure_phases(Trainer& trainer, StepWalk& walk, std::int64_t steps) {
  PhaseTimes times;
  trainer.take_times(true);
  for (std::int64_t i = 0; i < steps; ++i) {
    walk.next();
    for (std::size_t p = 0; p < times.size(); ++p) times[p].push_back(trainer.seconds().*phases[p].seconds);
  }
  trainer.take_times(false);
  return times;
}

/// Users/s of full-ranking evaluation by all ranks; 0 where nobody is held out.
double evaluation_rate(const SessionOptions& options, const Services& services,
                       const io::DatasetFile& dataset, model::Model& model) {
  const std::string split = dataset.rows("validation/fold_in") > 0 ? "validation" : "test";
  if (dataset.rows(split + "/fold_in") == 0) return 0.0;
  Evaluator evaluator(dataset, split, evaluated_metrics(options.validation), services);
  services.communicator.barrier();
  const auto begin = Clock::now();
  evaluator.evaluate(model);
  return static_cast<double>(evaluator.users()) / seconds_since(begin);
}

}  // namespace

BenchmarkResult benchmark(const SessionOptions& options, const Services& services) {
  comm::Communicator& communicator = services.communicator;
  const auto slowest = [&](double value) { return communicator.all_reduce(value, comm::Reduction::max); };
  const io::DatasetFile dataset(options.data.file);
  require_same(communicator, dataset.fingerprint(), format("the dataset {}", options.data.file));
  Trainer trainer(options, services, dataset, evaluation_batch);
  StepWalk walk(trainer);

  double step_seconds = 0.0;
  for (std::int64_t i = 0; i < warm_up_steps; ++i) {
    const auto begin = Clock::now();
    walk.next();
    services.backend.synchronize();
    step_seconds = slowest(seconds_since(begin));
  }
  const std::int64_t planned = options.train.epochs * trainer.steps_per_epoch();
  const auto affordable = static_cast<std::int64_t>(longest_seconds / std::max(step_seconds, 1e-6));
  const std::int64_t steps = std::max(fewest_steps, std::min(planned, affordable));

  std::vector<double> step_times;
  const std::int64_t users_before = trainer.users_seen();
  services.progress.begin("benchmark", steps, "steps");
  communicator.barrier();
  const auto begin = Clock::now();
  auto block_begin = begin;
  for (std::int64_t i = 0; i < steps; ++i) {
    walk.next();
    services.progress.update(i + 1);
    if ((i + 1) % block_steps != 0) continue;
    services.backend.synchronize();
    step_times.push_back(seconds_since(std::exchange(block_begin, Clock::now())) / block_steps);
  }
  services.backend.synchronize();
  const double seconds = slowest(seconds_since(begin));
  services.progress.end();
  const std::int64_t users = trainer.users_seen() - users_before;
  const PhaseTimes times = measure_phases(trainer, walk, std::min(steps, timed_steps));

  BenchmarkResult result;
  result.users_per_second = static_cast<double>(users) / seconds;
  result.seconds_per_epoch = static_cast<double>(trainer.users_per_epoch()) / result.users_per_second;
  result.milliseconds_per_step = 1e3 * slowest(median(step_times));
  for (std::size_t p = 0; p < times.size(); ++p) {
    result.phase_milliseconds[phases[p].name] = 1e3 * slowest(median(times[p]));
  }
  // Each weight of a dense layer costs 2 operations per user forward and 4 backward; the input table, whose
  // products are sparse gathers, is not counted.
  result.gflops = 6e-9 * static_cast<double>(trainer.model().dense_weights()) * result.users_per_second;
  result.peak_memory_mib = slowest(peak_memory_mib());
  result.peak_device_mib = slowest(static_cast<double>(services.backend.peak_device_bytes()) / 1048576.0);
  result.data_memory_mib = slowest(static_cast<double>(trainer.shard_bytes()) / 1048576.0);
  result.evaluation_users_per_second = evaluation_rate(options, services, dataset, trainer.model());
  communicator.barrier();
  result.gemm_gflops = communicator.all_reduce(services.backend.measure_gemm_rate());

  on_root(communicator, [&] {
    io::Event event("benchmark");
    event.set("ranks", std::int64_t{communicator.size()})
        .set("threads", std::int64_t{services.backend.threads()})
        .set("device", services.backend.device())
        .set("precision", backend::to_string(services.backend.precision()))
        .set("batch_size", options.train.batch_size)
        .set("steps", steps)
        .set("users_per_second", result.users_per_second)
        .set("seconds_per_epoch", result.seconds_per_epoch)
        .set("milliseconds_per_step", result.milliseconds_per_step);
    for (const auto& [name, value] : result.phase_milliseconds) event.set(name + "_ms", value);
    event.set("gflops", result.gflops)
        .set("gemm_gflops", result.gemm_gflops)
        .set("peak_memory_mib", result.peak_memory_mib)
        .set("peak_device_mib", result.peak_device_mib)
        .set("data_memory_mib", result.data_memory_mib)
        .set("evaluation_users_per_second", result.evaluation_users_per_second);
    RunLog log(options, services, RunLog::Mode::append);
    log.write(event);
    log.finish();
  });
  return result;
}

}  // namespace vaecf::train
