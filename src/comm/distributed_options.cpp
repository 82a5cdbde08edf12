#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/distributed_options.hpp>

namespace vaecf::comm {

double bucket_bytes(const DistributedOptions& options, const Communicator& ranks) {
  constexpr double mib = 1048576.0;
  if (options.bucket_mib > 0.0) return mib * options.bucket_mib;
  const bool between_gpus = ranks.supports_graph_capture();
  if (!between_gpus) return 4.0 * mib;
  return (ranks.local_size() == ranks.size() ? 32.0 : 64.0) * mib;
}

}  // namespace vaecf::comm
