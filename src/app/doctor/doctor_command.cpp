#include <vaecf/base/error.hpp>
#include <vaecf/base/host.hpp>
#include <vaecf/base/version.hpp>
#include <vaecf/comm/launcher.hpp>
#include <vaecf/comm/nccl.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/models/kind.hpp>
#include <vaecf/models/trainable_model.hpp>
#include <vaecf/run/plan.hpp>
#include <vaecf/run/run.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <set>
#include <utility>

#include "app/command_line.hpp"
#include "app/cores.hpp"
#include "app/doctor/check_result.hpp"
#include "app/doctor/checks.hpp"
#include "app/doctor/host.hpp"
#include "app/doctor/launcher.hpp"
#include "app/doctor/placement.hpp"
#include "app/doctor/report.hpp"
#include "app/rank_devices.hpp"
#include "app/rank_session.hpp"
#include "app/task_result.hpp"

namespace vaecf::app {
namespace {

struct DoctorArguments {
  bool json = false;   ///< print JSON
  bool quick = false;  ///< skip the benchmarks
};

/// Runs all checks on all ranks. An exception in a check becomes a finding, except in communication between
/// ranks.
class CheckRunner {
 public:
  /// `separate_worlds`: the reason if MPI did not join the processes of a launcher; empty otherwise.
  CheckRunner(const CommandLine& line, const DoctorArguments& arguments, const config::Config& config,
              const std::string& separate_worlds, RankSession& session)
      : line_(line),
        arguments_(arguments),
        config_(config),
        separate_worlds_(separate_worlds),
        session_(session),
        ranks_(session.hosts()) {}

  /// Runs the checks and the measurements, and prints the report on rank 0: without --json, the findings
  /// before the measurements, which may fail. Collective.
  ExitCode run() {
    check_setup();
    io::Json report = make_report(ranks_, version_text(), findings_, io::Json::array());
    findings_.clear();
    const bool quiet = line_.verbosity == Verbosity::quiet;
    ExitCode ended = print_on_root([&] {
      return arguments_.json
                 ? ""
                 : (quiet ? "" : format("vaecf_dist {}\n", version_text())) + findings_table(report, quiet);
    });
    if (ended != ExitCode::done) return ended;

    const io::Json measured = measure_devices();
    const io::Json later = make_report(ranks_, version_text(), findings_, measured);
    add_report(report, later);
    ended = print_on_root([&] {
      return arguments_.json ? io::dump(report, 2) + "\n"
                             : findings_table(later, quiet) + summary_table(report, quiet);
    });
    return ended == ExitCode::done && report["fail"] > 0 ? ExitCode::failed : ended;
  }

 private:
  template <class Text>
  ExitCode print_on_root(const Text& text) {
    return session_.together([&] {
      if (ranks_.rank() == 0) print(text());
    });
  }
  void add(Scope scope, CheckResult finding) {
    finding.scope = scope;
    findings_.push_back(std::move(finding));
  }
  void add(Scope scope, const CheckResults& findings) {
    for (const CheckResult& finding : findings) add(scope, finding);
  }
  /// Runs a check on the ranks that report for its scope: rank 0, one rank per host, or every rank. An
  /// exception of the check becomes a finding.
  template <class Check>
  void check(Scope scope, const char* subject, const Check& check) {
    if (scope == Scope::host && ranks_.local_rank() != 0) return;
    if (scope == Scope::all && ranks_.rank() != 0) return;
    const TaskResult outcome = run_and_capture([&] { add(scope, check()); });
    if (!outcome.ok()) add(scope, CheckResult{subject, Severity::fail, outcome.message});
    ranks_.activity().note_progress();
  }

  /// Checks the configuration, the placement of the ranks, and the hosts. Collective.
  void check_setup() {
    for (const std::string& note : config_.notes)
      check(Scope::all, "configuration", [&] { return CheckResult{"configuration", Severity::warn, note}; });
    const int wanted = requested_threads(config_);
    const int threads = backend_options_for_rank(config_, ranks_).threads;
    const auto placements = gather_placements(ranks_, std::max(wanted, threads));
    check(Scope::all, "launch", [&] { return check_launch(placements, separate_worlds_); });
    check(Scope::all, "launch",
          [&] { return check_requested_hosts(placements, query_requested_hosts(query_launcher())); });
    check(Scope::all, "mpi", [&] { return check_mpirun(query_launcher(), comm::mpi_library()); });
    check(Scope::rank, "binding",
          [&] { return check_binding(placements[ranks_.rank()], ranks_.local_size(), wanted); });
    check(Scope::all, "oversubscription", [&] { return check_oversubscription(placements); });
    std::set<std::string> hosts;
    for (const RankPlacement& placement : placements) hosts.insert(placement.host);
    look_around(static_cast<int>(hosts.size()));
  }

  /// Measures the devices; with --quick, only creates their engines. Collective.
  io::Json measure_devices() {
    const std::int64_t spare = host_memory().available / 2 / ranks_.local_size();
    spare_bytes_ = ranks_.all_reduce(spare, comm::Reduction::min);
    device::BackendOptions options = backend_options_for_rank(config_, ranks_);
    io::Json measured = io::Json::array();
    options.device = device::DeviceChoice::cpu;
    measured.push_back(measure(options));
    options.device = device::DeviceChoice::cuda;
    const bool gpus_everywhere =
        ranks_.all_reduce(std::int64_t{cuda::availability().devices > 0 ? 1 : 0}, comm::Reduction::min) == 1;
    if (!arguments_.quick && gpus_everywhere && config_.backend.device != device::DeviceChoice::cpu)
      measured.push_back(measure(options));
    if (arguments_.quick) measured.clear();
    for (const io::Json& device : measured)
      check(Scope::all, "pace", [&] { return check_stragglers(device); });
    return measured;
  }

  /// Checks everything that needs no measurement. `hosts`: number of hosts. Collective.
  void look_around(int hosts) {
    const HostInfo host = query_host_info();
    const bool gpus = cuda::availability().devices > 0;
    const std::string shared = shared_gpus();
    check(Scope::host, "gpu", [&] {
      return check_gpus({cuda::availability(), cuda::query_cuda_info(), gpus ? comm::nccl_library() : "",
                         host.nvidia_driver, config_.backend.device, ranks_.local_size(), shared,
                         config_.backend.allow_shared_gpu});
    });
    check(Scope::host, "host", [&] { return check_host(host, ranks_.local_size(), gpus); });
    check(Scope::host, "mpi",
          [&] { return check_mpi(ranks_.description(), comm::mpi_transports(), hosts, host.infiniband); });
    const auto& options = config_.options;
    const bool has_config = !line_.config.empty();
    const std::string data = has_config ? options.data.file : "./data.h5";
    check(Scope::host, "file locks", [&] { return check_locks(data); });
    if (has_config) check(Scope::host, "data", [&] { return check_data(data); });
    check(Scope::all, "run folder",
          [&] { return check_run_folder(has_config ? options.run_folder() : ".", checkpoint_bytes()); });
  }

  /// Lists the ranks of this host that would share a GPU. Errors are ignored here, because check_gpus()
  /// reports them. Collective.
  std::string shared_gpus() {
    device::DeviceFacts mine;
    (void)run_and_capture([&] {
      const auto gpus = cuda::query_cuda_info().gpus;
      if (!gpus.empty()) mine.id = gpus[static_cast<std::size_t>(ranks_.local_rank()) % gpus.size()].id;
    });
    auto devices = gather_devices(ranks_, mine);
    for (RankDevice& device : devices)
      if (device.host != ranks_.host()) device.id.clear();
    return shared_devices(devices);
  }

  /// Returns the size in bytes of all checkpoints that a run keeps and the one being written; 1 GiB if the
  /// dataset cannot be read.
  std::int64_t checkpoint_bytes() const {
    std::int64_t bytes = std::int64_t{1} << 30;
    const auto& options = config_.options;
    (void)run_and_capture(
        [&] { bytes = run::checkpoint_bytes(options, io::DatasetFile(options.data.file)); });
    return bytes;
  }

  /// Returns a device's throughput by rank, 0 if not measured, and all-reduce times. Collective. With
  /// --quick, only creates the engines. If the device or NCCL of a rank fails, the others stop waiting after
  /// 30 seconds, and all continue together.
  io::Json measure(device::BackendOptions options) {
    const bool cpu = options.device == device::DeviceChoice::cpu;
    const char* subject = cpu ? "products" : "gpu";
    io::Json measured = {{"device", to_string(options.device)}};
    std::array<std::string, device_rates.size()> engines;
    std::array<double, device_rates.size()> mine{};
    bool all_work = true;
    for (std::size_t i = 0; i < device_rates.size(); ++i) {
      ranks_.barrier();  // all ranks measure at the same time
      check(Scope::rank, subject, [&] {
        options.precision = device_rates[i].precision;
        const auto device = device::make_device(options);
        engines[i] = device->facts().description;
        if (!arguments_.quick) mine[i] = device->measure(device_rates[i].rate, spare_bytes_);
        return CheckResults();
      });
      std::vector<double> rates(ranks_.size());
      ranks_.all_gather(std::span<const double>(&mine[i], 1), std::span<double>(rates));
      all_work = all_work && std::ranges::min(rates) > 0.0;
      measured[device_rates[i].key] = rates;
    }
    std::vector<run::AllReduceTiming> times;
    if (cpu) {
      check(Scope::rank, subject,
            [&] { return check_gemm(engines[0], engines[1], 0.0 < mine[1] && mine[1] < mine[0]); });
      auto sizes = run::all_reduce_benchmark_sizes();
      // The MPI library needs memory, too.
      std::erase_if(sizes, [&](std::int64_t bytes) { return 4 * bytes > spare_bytes_; });
      if (!arguments_.quick) times = run::measure_all_reduce(ranks_, sizes);
    } else if (ranks_.size() > 1 && all_work) {
      check(Scope::rank, "nccl", [&] {
        const auto device = device::make_device(options);
        constexpr double long_enough = 30.0;
        const auto gpus =
            comm::make_nccl_communicator(ranks_, device->facts().id,
                                         {config_.options.distributed.algorithm, options.deterministic,
                                          options.allow_shared_gpu, long_enough});
        times = run::measure_all_reduce(*gpus, *device, run::all_reduce_benchmark_sizes());
        return CheckResult{"nccl", Severity::ok, gpus->description()};
      });
    }
    if (!times.empty()) {
      check(Scope::rank, "item slices", [&] {
        const auto& configured = config_.options;
        if (line_.config.empty() || ranks_.rank() > 0 || models::is_solved(configured.model.type))
          return CheckResults();
        const io::DatasetFile data(configured.data.file);
        const auto tensors =
            models::tensor_specs(configured.model, models::input_dims(configured.model, data));
        options.precision = config_.backend.precision;
        const device::DeviceFacts facts = device::make_device(options)->facts();
        return CheckResults{check_item_slices(
            training::item_slice_problem(configured.train.batch_size, tensors, data.items(), ranks_, facts),
            times)};
      });
    }
    io::Json& sums = measured["all_reduce"] = io::Json::array();
    for (const run::AllReduceTiming& time : times) {
      sums.push_back({{"bytes", time.bytes},
                      {"seconds", time.seconds},
                      {"gbytes", time.algorithm_bandwidth()},
                      {"bus_gbytes", time.bus_bandwidth(ranks_.size())}});
    }
    return measured;
  }

  const CommandLine& line_;
  const DoctorArguments& arguments_;
  const config::Config& config_;
  const std::string& separate_worlds_;
  RankSession& session_;
  comm::Communicator& ranks_;
  CheckResults findings_;         // not yet in a report
  std::int64_t spare_bytes_ = 0;  // host memory that the measurements of a rank may use
};

ExitCode run_doctor(const CommandLine& line, const DoctorArguments& arguments) {
  config::Config config;
  const TaskResult parsed = run_and_capture([&] {
    config = line.config.empty() ? config::parse("{}", "doctor", line.overrides)
                                 : config::load(line.config, line.overrides);
  });
  // Shorter timeouts than in a run.
  comm::DistributedOptions limits = config.options.distributed;
  limits.timeout = limits.startup_timeout = limits.validation_timeout = 120.0;
  limits.stall_warning = 30.0;

  std::unique_ptr<comm::Communicator> ranks;
  const TaskResult connected = run_and_capture([&] {
    // No MPI library can join tasks that srun started without a process-management interface, and Open MPI
    // would end the process in MPI_Init.
    const std::string advice = comm::pmi_mismatch_hint();
    if (!advice.empty() && std::getenv("PMI_RANK") == nullptr) throw InputError(advice);
    ranks = make_communicator(limits);
  });
  std::string separate_worlds;
  if (connected.code == ExitCode::bad_input) {
    // Each process is a separate MPI job; only the first one reports this.
    if (comm::launcher_rank().value_or(0) != 0) return ExitCode::failed;
    separate_worlds = connected.message;
    ranks = comm::make_self_communicator();
  } else if (!connected.ok()) {
    throw RunError(connected.message);
  }
  RankSession session(std::move(ranks));
  session.together(parsed);
  session.watch(limits);
  return session.work(
      [&](std::string&) {
        session.hosts().activity().enter(Phase::benchmark);
        return CheckRunner(line, arguments, config, separate_worlds, session).run();
      },
      "the doctor");
}

}  // namespace

void add_doctor(CLI::App& app, CommandLine& line) {
  const auto arguments = std::make_shared<DoctorArguments>();
  auto& command =
      add_command(app, line, "doctor",
                  "check hardware, libraries and configuration on all ranks (run alone or under mpirun); "
                  "exits with 1 if a problem must be fixed",
                  "  vaecf_dist doctor\n"
                  "  vaecf_dist doctor configs/ml20m.yaml --quick\n"
                  "  mpirun -np 4 --hostfile hosts vaecf_dist doctor configs/ml20m.yaml",
                  with(arguments, run_doctor));
  add_config(command, line, false);
  command.add_flag("--json", arguments->json, "print one JSON object instead of a table");
  command.add_flag("--quick", arguments->quick, "skip the benchmarks");
}

}  // namespace vaecf::app
