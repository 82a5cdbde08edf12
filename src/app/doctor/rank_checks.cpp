#include "app/doctor/rank_checks.hpp"

#include <vaecf/base/format.hpp>

#include <sched.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "app/gather.hpp"

namespace vaecf::app {
namespace {

std::string packed(const RankPlace& place) {
  std::string text = format("{}\n{} {}", place.host, place.available, place.threads);
  for (const int core : place.cores) text += format(" {}", core);
  return text;
}

RankPlace unpacked(const std::string& text) {
  RankPlace place;
  std::istringstream in(text);
  std::getline(in, place.host);
  in >> place.available >> place.threads;
  for (int core = 0; in >> core;) place.cores.push_back(core);
  return place;
}

/// Ranks by host, in the order in which hosts first come.
std::vector<std::pair<std::string, std::vector<int>>> by_host(const std::vector<RankPlace>& places) {
  std::vector<std::pair<std::string, std::vector<int>>> hosts;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const auto of_host = [&](const auto& host) { return host.first == places[rank].host; };
    auto found = std::find_if(hosts.begin(), hosts.end(), of_host);
    if (found == hosts.end()) found = hosts.insert(hosts.end(), {places[rank].host, {}});
    found->second.push_back(static_cast<int>(rank));
  }
  return hosts;
}

const char* plural(std::size_t count) {
  return count == 1 ? "" : "s";
}

}  // namespace

std::vector<int> own_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

std::vector<RankPlace> gather_places(comm::Communicator& communicator, const RankPlace& mine) {
  std::vector<RankPlace> places;
  for (const std::string& text : gather_texts(communicator, packed(mine))) places.push_back(unpacked(text));
  return places;
}

Finding check_launch(const std::vector<RankPlace>& places) {
  const auto hosts = by_host(places);
  std::string list;
  std::size_t fewest = places.size();
  std::size_t most = 0;
  for (const auto& [host, ranks] : hosts) {
    list += format("{}{}: rank{} {}", list.empty() ? "" : "; ", host, plural(ranks.size()), list_of(ranks));
    fewest = std::min(fewest, ranks.size());
    most = std::max(most, ranks.size());
  }
  Finding finding{"launch", Health::ok,
                  format("{} rank{} on {} host{}: {}", places.size(), plural(places.size()), hosts.size(),
                         plural(hosts.size()), list),
                  ""};
  if (fewest != most) {
    finding.health = Health::warn;
    finding.advice = format(
        "hosts with {} ranks and with {} do not finish a step at the same time: start as many on each "
        "(mpirun --map-by ppr:N:node)",
        fewest, most);
  }
  return finding;
}

Finding check_binding(const RankPlace& place, int ranks_on_host, int wanted) {
  const Cores cores{static_cast<int>(place.cores.size()), place.available};
  const std::string text =
      format("core{} {} of {} available, {} thread{}", plural(place.cores.size()), list_of(place.cores),
             place.available, place.threads, place.threads == 1 ? "" : "s");
  const std::string advice = binding_advice(cores, ranks_on_host, wanted, place.threads);
  return {"binding", advice.empty() ? Health::ok : Health::warn, text, advice};
}

std::vector<Finding> check_oversubscription(const std::vector<RankPlace>& places) {
  std::vector<Finding> findings;
  for (const auto& [host, ranks] : by_host(places)) {
    std::set<int> cores;
    int threads = 0;
    for (const int rank : ranks) {
      const RankPlace& place = places[static_cast<std::size_t>(rank)];
      cores.insert(place.cores.begin(), place.cores.end());
      threads += place.threads;
    }
    const int usable = static_cast<int>(cores.size());
    if (cores.empty() || threads <= usable) continue;
    const int ranks_here = static_cast<int>(ranks.size());
    findings.push_back(
        {"oversubscription", Health::warn,
         format("{}: {} threads of {} rank{} share {} core{}", host, threads, ranks_here,
                plural(ranks.size()), usable, plural(cores.size())),
         ranks_here <= usable
             ? format("threads that wait for one another lose far more than they bring: OMP_NUM_THREADS={}, "
                      "or bind ranks to more cores",
                      std::max(1, usable / ranks_here))
             : format("start at most {} rank{} here; where that cannot be, OMP_NUM_THREADS=1 and "
                      "OMP_WAIT_POLICY=passive, mpirun --mca mpi_yield_when_idle 1",
                      usable, plural(cores.size()))});
  }
  if (findings.empty()) findings.push_back({"oversubscription", Health::ok, "none", ""});
  return findings;
}

}  // namespace vaecf::app
