#include "app/rank_devices.hpp"

#include <map>
#include <new>
#include <utility>

#include "app/cores.hpp"

namespace vaecf::app {

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
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    ranks.push_back({hosts[rank], *parse_enum<device::DeviceKind>(devices[rank]), ids[rank]});
  return ranks;
}

std::string shared_devices(const std::vector<RankDevice>& ranks) {
  std::map<std::pair<std::string, std::string>, std::vector<int>> users;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (!ranks[rank].id.empty()) users[{ranks[rank].host, ranks[rank].id}].push_back(static_cast<int>(rank));
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
