#include "app/device_map.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <algorithm>
#include <map>
#include <utility>

#include "app/gather.hpp"

namespace vaecf::app {

backend::BackendOptions at_rank(backend::BackendOptions options, const comm::Communicator& communicator) {
  options.local_rank = communicator.local_rank();
  options.local_size = communicator.local_size();
  return options;
}

std::vector<RankDevice> gather_devices(comm::Communicator& communicator, const train::Engine& engine) {
  const auto hosts = gather_texts(communicator, communicator.host());
  const train::DeviceFacts mine = engine.facts();
  const auto devices = gather_texts(communicator, mine.device);
  const auto ids = gather_texts(communicator, mine.id);
  std::vector<RankDevice> ranks;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    ranks.push_back({hosts[rank], devices[rank], ids[rank]});
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
    text += format("{}ranks {} of {} share {}", text.empty() ? "" : "; ", list_of(sharing), place.first,
                   place.second);
  }
  return text;
}

std::string check_devices(const std::vector<RankDevice>& ranks, bool may_share) {
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    if (ranks[rank].device == ranks[0].device) continue;
    throw InputError(format(
        "rank {} of {} computes on {}, rank 0 of {} on {}, and ranks cannot work together so: set device "
        "to cpu, or make GPUs visible to all",
        rank, ranks[rank].host, ranks[rank].device, ranks[0].host, ranks[0].device));
  }
  const std::string shared = shared_devices(ranks);
  if (shared.empty()) return "";
  if (!may_share) {
    throw InputError(format(
        "{}, but each rank needs a GPU of its own: start as many ranks per host as it has GPUs (mpirun "
        "--map-by ppr:N:node), check CUDA_VISIBLE_DEVICES, or use device: cpu; "
        "distributed.allow_shared_gpu: true shares them, for tests without regard to speed",
        shared));
  }
  return format("{}, as distributed.allow_shared_gpu says: timings mean nothing", shared);
}

}  // namespace vaecf::app
