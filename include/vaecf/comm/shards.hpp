#pragma once

#include <vaecf/backend/backend.hpp>
#include <vaecf/comm/bucket_plan.hpp>
#include <vaecf/comm/communicator.hpp>

namespace vaecf::comm {

/// Copies what `rank` owns of `flat` (padded_size elements) into `shard` (shard_size elements).
void pack_shard(backend::Backend& backend, const BucketPlan& plan, int rank, const backend::FloatBuffer& flat,
                backend::FloatBuffer& shard);

/// Lays every rank's `shard` out flat again, on every rank. All ranks call it; verbs that follow find `flat`
/// whole.
void unpack_shards(Communicator& communicator, backend::Backend& backend, const BucketPlan& plan,
                   const backend::FloatBuffer& shard, backend::FloatBuffer& flat);

}  // namespace vaecf::comm
