#pragma once

#include <vaecf/backend/parameters.hpp>
#include <vaecf/comm/bucket_plan.hpp>
#include <vaecf/optim/optimizer.hpp>
#include <vaecf/train/session.hpp>

#include <vector>

namespace vaecf::train {

/// Flat buffers of `layout` in buckets as distributed.bucket_mib says, each shared by `owners`.
comm::BucketPlan bucket_plan(const SessionOptions& options, const backend::ParameterLayout& layout,
                             int owners);

/// By bucket: what of each tensor lies in the part of `owner`, as elements of its shard.
std::vector<std::vector<optim::UpdatePiece>> shard_pieces(const comm::BucketPlan& plan, int owner,
                                                          const backend::ParameterLayout& layout);

}  // namespace vaecf::train
