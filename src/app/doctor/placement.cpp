#include "app/doctor/placement.hpp"

#include <vaecf/base/host.hpp>
#include <vaecf/comm/launcher.hpp>
#include <vaecf/io/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <set>

#include "app/cores.hpp"
#include "app/doctor/check_result.hpp"
#include "app/doctor/launcher.hpp"

namespace vaecf::app {
namespace {

std::map<std::string, std::vector<int>> ranks_by_host(const std::vector<RankPlacement>& placements) {
  std::map<std::string, std::vector<int>> hosts;
  for (std::size_t rank = 0; rank < placements.size(); ++rank)
    hosts[placements[rank].host].push_back(static_cast<int>(rank));
  return hosts;
}

/// Returns "1 rank", "2 ranks".
std::string counted(std::size_t count, const char* what) {
  return format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

std::vector<RankPlacement> gather_placements(comm::Communicator& communicator, int threads) {
  const std::vector<int> cores = cores_of_process(0);
  const CpuAffinity affinity = query_affinity();
  const io::Json mine = {
      {"host", communicator.host()},
      {"cores", cores},
      {"available", affinity.available},
      {"cpu_limit", affinity.limit},
      {"threads", threads > 0 ? threads : cores_within(affinity.limit, static_cast<int>(cores.size()))}};
  std::vector<RankPlacement> placements;
  for (const std::string& text : all_gather_strings(communicator, io::dump(mine))) {
    const auto placement = io::Json::parse(text);
    placements.push_back({placement["host"], placement["cores"], placement["available"], placement["threads"],
                          placement["cpu_limit"]});
  }
  return placements;
}

CheckResults check_launch(const std::vector<RankPlacement>& placements, const std::string& separate_worlds) {
  if (!separate_worlds.empty()) return {{"launch", Severity::fail, separate_worlds}};
  const auto hosts = ranks_by_host(placements);
  std::vector<std::string> list;
  std::set<std::size_t> counts;
  for (const auto& [host, ranks] : hosts) {
    list.push_back(format("{}: rank{} {}", host, ranks.size() == 1 ? "" : "s", format_ranges(ranks)));
    counts.insert(ranks.size());
  }
  CheckResults findings = {warn_if(
      counts.size() > 1, "launch",
      format("{} on {}: {}", counted(placements.size(), "rank"), counted(hosts.size(), "host"),
             join(list, "; ")),
      format(
          "hosts with {} ranks and with {} do not finish a step at the same time; start the same number on each (mpirun --map-by ppr:N:node)",
          *counts.begin(), *counts.rbegin()))};
  if (const std::string advice = comm::pmi_mismatch_hint(); !advice.empty())
    findings.push_back({"launch", Severity::warn, advice});
  const char* tasks = std::getenv("SLURM_NTASKS");
  if (tasks != nullptr && std::atoi(tasks) > 1 && placements.size() == 1) {
    findings.push_back({"launch", Severity::warn,
                        format("the Slurm allocation has {} tasks, but this is a single process", tasks),
                        "start it with srun --mpi=pmix or mpirun"});
  }
  return findings;
}

CheckResult check_binding(const RankPlacement& placement, int ranks_on_host, int wanted) {
  const CpuAffinity cores{static_cast<int>(placement.cores.size()), placement.available, placement.cpu_limit};
  const std::string advice = binding_advice(cores, ranks_on_host, wanted, placement.threads);
  return warn_if(!advice.empty(), "binding",
                 format("core{} {} of {} available, {}", placement.cores.size() == 1 ? "" : "s",
                        format_ranges(placement.cores), placement.available,
                        counted(static_cast<std::size_t>(placement.threads), "thread")),
                 advice);
}

CheckResults check_oversubscription(const std::vector<RankPlacement>& placements) {
  CheckResults findings;
  for (const auto& [host, ranks] : ranks_by_host(placements)) {
    std::set<int> cores;
    int threads = 0;
    for (const int rank : ranks) {
      const RankPlacement& placement = placements[rank];
      cores.insert(placement.cores.begin(), placement.cores.end());
      threads += placement.threads;
    }
    // Ranks of one host are assumed to be in one container or job.
    const double limit = placements[ranks.front()].cpu_limit;
    const auto usable = static_cast<std::size_t>(cores_within(limit, static_cast<int>(cores.size())));
    if (cores.empty() || threads <= static_cast<int>(usable)) continue;
    const char* reason = usable < cores.size() ? ", the CPU limit of the container or job" : "";
    findings.push_back(
        {"oversubscription", Severity::warn,
         format("{}: {} threads of {} share {}{}", host, threads, counted(ranks.size(), "rank"),
                counted(usable, "core"), reason),
         ranks.size() <= usable
             ? format(
                   "waiting threads slow the others down; set OMP_NUM_THREADS={}, or bind ranks to more cores",
                   usable / ranks.size())
             : format(
                   "start at most {} here; "
                   "otherwise set OMP_NUM_THREADS=1 and OMP_WAIT_POLICY=passive, and use mpirun --mca mpi_yield_when_idle 1",
                   counted(usable, "rank"))});
  }
  if (findings.empty()) findings.push_back({"oversubscription", Severity::ok, "none"});
  return findings;
}

CheckResults check_placement(comm::Communicator& communicator, int threads) {
  const auto placements = gather_placements(communicator, threads);
  CheckResults findings = check_oversubscription(placements);
  if (communicator.rank() != 0) return findings;
  std::ranges::copy(check_requested_hosts(placements, query_requested_hosts(query_launcher())),
                    std::back_inserter(findings));
  return findings;
}

}  // namespace vaecf::app
