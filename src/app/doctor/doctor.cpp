#include "app/doctor/doctor.hpp"

#include <vaecf/base/format.hpp>
#include <vaecf/comm/launcher.hpp>
#include <vaecf/comm/nccl.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/model/network_shape.hpp>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <set>

#include "app/device_map.hpp"
#include "app/doctor/disk_checks.hpp"
#include "app/doctor/host_checks.hpp"
#include "app/doctor/library_checks.hpp"
#include "app/doctor/rank_checks.hpp"
#include "app/gather.hpp"
#include "app/outcome.hpp"
#include "app/ranks.hpp"

namespace vaecf::app {
namespace {

/// One call of examine().
class Examination {
 public:
  Examination(const DoctorOrder& order, comm::Communicator& communicator)
      : order_(order), ranks_(communicator) {}

  DoctorReport run() {
    comm::Communicator& ranks = ranks_;
    backend::BackendOptions options = options_for_rank(order_.config, ranks);
    if (options.threads == 0) options.threads = wanted_threads(order_.config);
    options.device = backend::DeviceChoice::cpu;
    host_ = look_at_host();
    look_at_ranks(options.threads);
    look_around();

    DoctorReport report;
    for (const RankPlace& place : places_) report.hosts.push_back(place.host);
    report.version = order_.version;
    if (!order_.quick) report.measured.push_back(measure_cpu(options));
    check(About::rank, "products",
          [&] { return check_products(order_.quick ? only_named(options) : rates_); });
    const bool gpus_everywhere =
        ranks.all_reduce(std::int64_t{gpus_.availability.devices > 0 ? 1 : 0}, comm::Reduction::min) == 1;
    if (!order_.quick && gpus_everywhere && order_.config.backend.device != backend::DeviceChoice::cpu) {
      report.measured.push_back(measure_gpus());
    }
    for (const DeviceMeasurements& measured : report.measured) add_on_root(check_pace(measured));
    report.findings = gather_findings(ranks, findings_);
    for (Finding& finding : check_same_data(report.findings)) {
      report.findings.push_back({std::move(finding), {0}});
    }
    return report;
  }

 private:
  void add(About about, std::vector<Finding> findings) {
    for (Finding& finding : findings) {
      finding.about = about;
      findings_.push_back(std::move(finding));
    }
  }
  /// What every rank knows, one says.
  void add_on_root(std::vector<Finding> findings) {
    if (ranks_.rank() == 0) add(About::all, std::move(findings));
  }
  /// A check that breaks is a finding like others.
  void check(About about, const char* subject, const std::function<std::vector<Finding>()>& check) {
    if (about == About::host && ranks_.local_rank() != 0) return;
    if (about == About::all && ranks_.rank() != 0) return;
    const Outcome outcome = attempt([&] { add(about, check()); });
    if (!outcome.ok()) add(about, {{subject, Health::fail, outcome.message, ""}});
    ranks_.activity().progressed();
  }

  void look_at_ranks(int threads) {
    const std::vector<int> cores = own_cores();
    const RankPlace mine{ranks_.host(), cores, look_at_cores().available,
                         threads > 0 ? threads : static_cast<int>(cores.size())};
    places_ = gather_places(ranks_, mine);
    std::set<std::string> hosts;
    for (const RankPlace& place : places_) hosts.insert(place.host);
    hosts_ = static_cast<int>(hosts.size());
    if (order_.separate_worlds.empty()) {
      add_on_root({check_launch(places_)});
    } else {
      add_on_root({{"launch", Health::fail, order_.separate_worlds, ""}});
    }
    if (const std::string advice = comm::launch_advice(); !advice.empty() && order_.separate_worlds.empty()) {
      add_on_root({{"launch", Health::warn, advice, ""}});
    }
    const char* tasks = std::getenv("SLURM_NTASKS");
    if (tasks != nullptr && std::atoi(tasks) > 1 && ranks_.size() == 1 && order_.separate_worlds.empty()) {
      add_on_root(
          {{"launch", Health::warn,
            format("this is a Slurm allocation of {} tasks, but this program was started alone", tasks),
            "start it by srun --mpi=pmix, or by mpirun"}});
    }
    add(About::rank, {check_binding(mine, ranks_.local_size(), wanted_threads(order_.config))});
    add_on_root(check_oversubscription(places_));
  }

  void look_around() {
    const auto& session = order_.config.session;
    gpus_.availability = cuda::availability();
    const std::string shared = shared_gpus();
    check(About::host, "gpu", [&] {
      gpus_ = {cuda::availability(),
               {},
               "",
               host_.nvidia_driver,
               vaecf::to_string(order_.config.backend.device),
               ranks_.local_size(),
               shared,
               order_.config.backend.allow_shared_gpu};
      gpus_.facts = cuda::cuda_facts();
      gpus_.nccl = gpus_.availability.devices > 0 ? comm::nccl_library() : "";
      return check_gpus(gpus_);
    });
    check(About::host, "host",
          [&] { return check_host(host_, ranks_.local_size(), gpus_.availability.devices > 0); });
    check(About::host, "mpi", [&] {
      return std::vector<Finding>{
          check_mpi(ranks_.description(), comm::mpi_transports(), hosts_, host_.infiniband)};
    });
    const std::string data = order_.has_config ? session.data.file : "./data.h5";
    check(About::host, "file locks", [&] { return std::vector<Finding>{check_locks(data)}; });
    if (order_.has_config) {
      check(About::host, "data", [&] { return std::vector<Finding>{check_data(data)}; });
    }
    check(About::all, "run folder", [&] {
      return std::vector<Finding>{
          check_run_folder(order_.has_config ? session.run_folder() : ".", checkpoint_bytes())};
    });
  }

  /// Which ranks of this host would compute on one GPU together; what cannot be told is told elsewhere.
  /// Collective.
  std::string shared_gpus() {
    std::string mine;
    (void)attempt([&] {
      const auto gpus = cuda::cuda_facts().gpus;
      if (!gpus.empty()) mine = gpus[static_cast<std::size_t>(ranks_.local_rank()) % gpus.size()].id;
    });
    const auto hosts = gather_texts(ranks_, ranks_.host());
    const auto ids = gather_texts(ranks_, mine);
    std::vector<RankDevice> here;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      here.push_back({hosts[rank], "cuda", hosts[rank] == ranks_.host() ? ids[rank] : ""});
    }
    return shared_devices(here);
  }

  /// Of all checkpoints that a run keeps, and the one being written.
  std::int64_t checkpoint_bytes() const {
    constexpr std::int64_t without_a_model = std::int64_t{1} << 30;
    const auto& session = order_.config.session;
    if (!order_.has_config) return without_a_model;
    std::int64_t parameters = 0;
    const bool known = attempt([&] {
                         const io::DatasetFile data(session.data.file);
                         const auto shape =
                             model::network_shape(session.model, train::model_inputs(session, data));
                         parameters = model::parameter_count(model::tensor_specs(shape));
                       }).ok();
    // Weights and two moments.
    return known ? (session.run.keep + 2) * parameters * 3 * std::int64_t{sizeof(float)} : without_a_model;
  }

  static train::MachineRates only_named(backend::BackendOptions options) {
    train::MachineRates rates;
    options.precision = backend::Precision::fp32;
    rates.fp32_products = train::make_engine(options)->facts().description;
    options.precision = backend::Precision::bf16;
    rates.bf16_products = train::make_engine(options)->facts().description;
    return rates;
  }

  DeviceMeasurements measure_cpu(const backend::BackendOptions& options) {
    DeviceMeasurements measured;
    measured.device = "cpu";
    rates_ = train::measure_rates(options, [&] { ranks_.barrier(); });
    measured.ranks = gather_rates(ranks_, rates_);
    measured.all_reduce = comm::measure_all_reduce(ranks_, comm::all_reduce_sizes());
    return measured;
  }

  /// Where one rank's GPU or NCCL fails, others give up after a while, and all come together again behind it.
  DeviceMeasurements measure_gpus() {
    DeviceMeasurements measured;
    measured.device = "cuda";
    const auto options = [&] {
      auto wanted = options_for_rank(order_.config, ranks_);
      wanted.device = backend::DeviceChoice::cuda;
      return wanted;
    }();
    train::MachineRates mine;
    check(About::rank, "gpu", [&] {
      mine = train::measure_rates(options);
      return std::vector<Finding>();
    });
    measured.ranks = gather_rates(ranks_, mine);
    if (ranks_.size() == 1) return measured;
    const bool all_work = ranks_.all_reduce(mine.bf16_gflops, comm::Reduction::min) > 0.0;
    if (!all_work) return measured;
    check(About::rank, "nccl", [&] {
      const auto engine = train::make_engine(options);
      constexpr double long_enough = 30.0;
      const auto gpus =
          engine->connect(ranks_, {order_.config.session.distributed.algorithm, options.deterministic,
                                   options.allow_shared_gpu, long_enough, 0.0});
      measured.all_reduce = engine->measure_all_reduce(*gpus, comm::all_reduce_sizes(), 1.0);
      return std::vector<Finding>{{"nccl", Health::ok, gpus->description(), ""}};
    });
    return measured;
  }

  const DoctorOrder& order_;
  comm::Communicator& ranks_;
  HostFacts host_;
  std::vector<RankPlace> places_;
  int hosts_ = 1;
  GpuQuestion gpus_;
  train::MachineRates rates_;
  std::vector<Finding> findings_;
};

}  // namespace

DoctorReport examine(const DoctorOrder& order, comm::Communicator& communicator) {
  return Examination(order, communicator).run();
}

}  // namespace vaecf::app
