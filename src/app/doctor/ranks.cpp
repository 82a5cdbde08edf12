#include <vaecf/base/format.hpp>
#include <vaecf/comm/launcher.hpp>

#include <cstdlib>
#include <map>
#include <set>

#include "app/doctor/doctor.hpp"
#include "app/ranks.hpp"

namespace vaecf::app {
namespace {

std::map<std::string, std::vector<int>> ranks_by_host(const std::vector<RankPlace>& places) {
  std::map<std::string, std::vector<int>> hosts;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    hosts[places[rank].host].push_back(static_cast<int>(rank));
  }
  return hosts;
}

/// Returns "1 rank", "2 ranks".
std::string counted(std::size_t count, const char* what) {
  return format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

std::vector<RankPlace> gather_places(comm::Communicator& communicator, int threads) {
  const std::vector<int> cores = cores_of_process(0);
  const io::Json mine = {{"host", communicator.host()},
                         {"cores", cores},
                         {"available", look_at_cores().available},
                         {"threads", threads > 0 ? threads : static_cast<int>(cores.size())}};
  std::vector<RankPlace> places;
  for (const std::string& text : all_gather_strings(communicator, io::to_text(mine))) {
    const auto place = io::Json::parse(text);
    places.push_back({place["host"], place["cores"], place["available"], place["threads"]});
  }
  return places;
}

Findings check_launch(const std::vector<RankPlace>& places, const std::string& separate_worlds) {
  if (!separate_worlds.empty()) return {{"launch", Health::fail, separate_worlds}};
  const auto hosts = ranks_by_host(places);
  std::vector<std::string> list;
  std::set<std::size_t> counts;
  for (const auto& [host, ranks] : hosts) {
    list.push_back(format("{}: rank{} {}", host, ranks.size() == 1 ? "" : "s", list_of(ranks)));
    counts.insert(ranks.size());
  }
  Findings findings = {warn_if(
      counts.size() > 1, "launch",
      format("{} on {}: {}", counted(places.size(), "rank"), counted(hosts.size(), "host"), join(list, "; ")),
      format(
          "hosts with {} ranks and with {} do not finish a step at the same time; start the same number on each (mpirun --map-by ppr:N:node)",
          *counts.begin(), *counts.rbegin()))};
  if (const std::string advice = comm::pmi_mismatch_hint(); !advice.empty()) {
    findings.push_back({"launch", Health::warn, advice});
  }
  const char* tasks = std::getenv("SLURM_NTASKS");
  if (tasks != nullptr && std::atoi(tasks) > 1 && places.size() == 1) {
    findings.push_back({"launch", Health::warn,
                        format("the Slurm allocation has {} tasks, but this is a single process", tasks),
                        "start it with srun --mpi=pmix or mpirun"});
  }
  return findings;
}

Finding check_binding(const RankPlace& place, int ranks_on_host, int wanted) {
  const Cores cores{static_cast<int>(place.cores.size()), place.available};
  const std::string advice = binding_advice(cores, ranks_on_host, wanted, place.threads);
  return warn_if(
      !advice.empty(), "binding",
      format("core{} {} of {} available, {}", place.cores.size() == 1 ? "" : "s", list_of(place.cores),
             place.available, counted(static_cast<std::size_t>(place.threads), "thread")),
      advice);
}

Findings check_oversubscription(const std::vector<RankPlace>& places) {
  Findings findings;
  for (const auto& [host, ranks] : ranks_by_host(places)) {
    std::set<int> cores;
    int threads = 0;
    for (const int rank : ranks) {
      const RankPlace& place = places[static_cast<std::size_t>(rank)];
      cores.insert(place.cores.begin(), place.cores.end());
      threads += place.threads;
    }
    if (cores.empty() || threads <= static_cast<int>(cores.size())) continue;
    findings.push_back(
        {"oversubscription", Health::warn,
         format("{}: {} threads of {} share {}", host, threads, counted(ranks.size(), "rank"),
                counted(cores.size(), "core")),
         ranks.size() <= cores.size()
             ? format(
                   "waiting threads slow the others down; set OMP_NUM_THREADS={}, or bind ranks to more cores",
                   cores.size() / ranks.size())
             : format(
                   "start at most {} here; "
                   "otherwise set OMP_NUM_THREADS=1 and OMP_WAIT_POLICY=passive, and use mpirun --mca mpi_yield_when_idle 1",
                   counted(cores.size(), "rank"))});
  }
  if (findings.empty()) findings.push_back({"oversubscription", Health::ok, "none"});
  return findings;
}

}  // namespace vaecf::app
