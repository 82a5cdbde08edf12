#pragma once

#include <vaecf/backend/parameters.hpp>
#include <vaecf/comm/bucket_plan.hpp>
#include <vaecf/train/session.hpp>

#include <algorithm>

namespace vaecf::train {

/// Cuts flat buffers of `layout` into buckets of distributed.bucket_mib, each shared by `owners` ranks.
inline comm::BucketPlan bucket_plan(const SessionOptions& options, const backend::ParameterLayout& layout,
                                    int owners) {
  const double elements = options.distributed.bucket_mib * 1048576.0 / sizeof(float);
  return {layout.size, std::max<std::int64_t>(1, static_cast<std::int64_t>(elements)), owners};
}

}  // namespace vaecf::train
