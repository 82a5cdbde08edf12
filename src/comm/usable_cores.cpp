#include <vaecf/base/host.hpp>
#include <vaecf/comm/collective.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/usable_cores.hpp>

#include <sched.h>

namespace vaecf::comm {

std::int64_t usable_cores(Communicator& ranks) {
  cpu_set_t own{};
  // If the kernel returns no mask, as for more cores than a cpu_set_t can contain, assume all cores.
  if (sched_getaffinity(0, sizeof(own), &own) != 0)
    for (std::int64_t core = 0; core < host_cores(); ++core) CPU_SET(core, &own);
  const std::vector<std::string> hosts = all_gather_strings(ranks, ranks.host());
  std::vector<cpu_set_t> all(hosts.size());
  ranks.all_gather<std::byte>(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (hosts[rank] == ranks.host()) CPU_OR(&own, &own, &all[rank]);
  return ranks.all_reduce(std::int64_t{cores_within(cpu_limit(), CPU_COUNT(&own))}, Reduction::min);
}

}  // namespace vaecf::comm
