#include <vaecf/base/format.hpp>
#include <vaecf/comm/shards.hpp>

#include <stdexcept>
#include <vector>

#include "flat_view.hpp"

namespace vaecf::comm {
namespace {

void require_sizes(const BucketPlan& plan, const backend::FloatBuffer& flat,
                   const backend::FloatBuffer& shard) {
  if (flat.size() >= plan.padded_size() && shard.size() >= plan.shard_size()) return;
  throw std::logic_error(vaecf::format("buffers of {} and {} elements cannot hold {} and a shard of {}",
                                       flat.size(), shard.size(), plan.padded_size(), plan.shard_size()));
}

}  // namespace

void pack_shard(backend::Backend& backend, const BucketPlan& plan, int rank, const backend::FloatBuffer& flat,
                backend::FloatBuffer& shard) {
  require_sizes(plan, flat, shard);
  for (std::int64_t b = 0; b < plan.buckets(); ++b) {
    backend.copy(flat, plan.part(b, rank), shard, plan.packed(b).begin);
  }
}

void unpack_shards(Communicator& communicator, backend::Backend& backend, const BucketPlan& plan,
                   const backend::FloatBuffer& shard, backend::FloatBuffer& flat) {
  require_sizes(plan, flat, shard);
  const backend::Completion written = backend.mark();
  std::vector<Ticket> tickets;
  for (std::int64_t b = 0; b < plan.buckets(); ++b) {
    tickets.push_back(
        communicator.start_all_gather(view(shard, plan.packed(b)), view(flat, plan.bucket(b)), written));
  }
  for (const Ticket ticket : tickets) backend.wait_for(communicator.wait(ticket));
}

}  // namespace vaecf::comm
