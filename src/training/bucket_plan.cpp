#include "training/bucket_plan.hpp"

namespace vaecf::training {

void pack_shard(device::Device& device, const BucketPlan& plan, int owner, const device::Buffer& flat,
                device::Buffer& packed) {
  for (std::int64_t b = 0; b < plan.buckets(); ++b)
    device.copy(flat, plan.part(b, owner), packed, plan.shard_range(b).begin);
}

}  // namespace vaecf::training
