#include "app/cores.hpp"

#include <vaecf/base/host.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace vaecf::app {
namespace {

int fair_share(CpuAffinity cores, int ranks_on_host) {
  return std::max(1, cores_within(cores.limit, cores.available) / std::max(1, ranks_on_host));
}

}  // namespace

std::string format_ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += text.empty() ? "" : ", ";
    text += end - i == 1 ? format("{}", numbers[i]) : format("{}-{}", numbers[i], numbers[end - 1]);
    i = end;
  }
  return text;
}

CpuAffinity query_affinity() {
  const int own = static_cast<int>(cores_of_process(0).size());
  // mpirun binds its children, but not itself: the affinity mask of the parent contains all cores of the job.
  return {own, std::max(own, static_cast<int>(cores_of_process(getppid()).size())), cpu_limit()};
}

int default_threads(CpuAffinity cores, int ranks_on_host) {
  const int share = fair_share(cores, ranks_on_host);
  return cores.bound > 0 ? std::min(cores.bound, share) : share;
}

std::string binding_advice(CpuAffinity cores, int ranks_on_host, int wanted, int running) {
  const int aim = wanted > 0 ? wanted : fair_share(cores, ranks_on_host);
  if (cores.bound >= aim || cores.bound >= cores.available) return "";
  return format(
      "the launcher bound each rank to {} of {} cores, so {} thread{} per rank, but {} could run in parallel; "
      "use mpirun --bind-to none, or --map-by slot:PE={}",
      cores.bound, cores.available, running, running == 1 ? " runs" : "s share them",
      std::min(aim, cores.available), std::min(aim, cores.available));
}

int requested_threads(const config::Config& config) {
  const char* variable = std::getenv("OMP_NUM_THREADS");
  if (config.backend.threads > 0 || variable == nullptr) return config.backend.threads;
  const long threads = std::strtol(variable, nullptr, 10);
  if (threads > device::max_threads) {
    throw InputError(format("OMP_NUM_THREADS: must be at most {}, got {}; set it or backend.threads",
                            device::max_threads, variable));
  }
  return static_cast<int>(threads);
}

}  // namespace vaecf::app
