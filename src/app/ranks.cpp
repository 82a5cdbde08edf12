#include "app/ranks.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/base/host.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

namespace vaecf::app {

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

namespace {

/// Returns the threads of each rank of a host that share the available cores evenly.
int fair_share(CpuAffinity cores, int ranks_on_host) {
  return std::max(1, cores_within(cores.limit, cores.available) / std::max(1, ranks_on_host));
}

}  // namespace

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

device::BackendOptions backend_options_for_rank(const config::Config& config,
                                                const comm::Communicator& ranks) {
  device::BackendOptions options = config.backend;
  options.local_rank = ranks.local_rank();
  options.local_size = ranks.local_size();
  if (requested_threads(config) == 0) options.threads = default_threads(query_affinity(), ranks.local_size());
  return options;
}

std::vector<RankDevice> gather_devices(comm::Communicator& communicator, const device::DeviceFacts& mine) {
  const auto hosts = all_gather_strings(communicator, communicator.host());
  const auto devices = all_gather_strings(communicator, to_string(mine.kind));
  const auto ids = all_gather_strings(communicator, mine.id);
  std::vector<RankDevice> ranks;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    ranks.push_back({hosts[rank], *parse_enum<device::DeviceKind>(devices[rank]), ids[rank]});
  }
  return ranks;
}

std::string shared_devices(const std::vector<RankDevice>& ranks) {
  std::map<std::pair<std::string, std::string>, std::vector<int>> users;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].id.empty()) users[{ranks[rank].host, ranks[rank].id}].push_back(static_cast<int>(rank));
  }
  std::string text;
  for (const auto& [place, sharing] : users) {
    if (sharing.size() < 2) continue;
    text += format("{}ranks {} of {} share {}", text.empty() ? "" : "; ", format_ranges(sharing), place.first,
                   place.second);
  }
  return text;
}

std::string check_devices(const std::vector<RankDevice>& ranks, bool may_share) {
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    if (ranks[rank].device == ranks[0].device) continue;
    throw InputError(format(
        "rank {} on {} uses {}, but rank 0 on {} uses {}; set device: cpu, or make GPUs visible to all ranks",
        rank, ranks[rank].host, to_string(ranks[rank].device), ranks[0].host, to_string(ranks[0].device)));
  }
  const std::string shared = shared_devices(ranks);
  if (shared.empty()) return "";
  if (!may_share) {
    throw InputError(format(
        "{}, but each rank needs its own GPU; start as many ranks per host as it has GPUs (mpirun --map-by ppr:N:node), check CUDA_VISIBLE_DEVICES, or set device: cpu; "
        "for tests, distributed.allow_shared_gpu: true permits sharing",
        shared));
  }
  return format("{} (distributed.allow_shared_gpu: true); timings are meaningless", shared);
}

}  // namespace vaecf::app
