#include "shard_pieces.hpp"

#include <algorithm>
#include <cstdint>

namespace vaecf::train {
namespace {

std::vector<optim::UpdatePiece> pieces_of(const comm::BucketPlan& plan, std::int64_t b, int owner,
                                          const backend::ParameterLayout& layout) {
  std::vector<optim::UpdatePiece> pieces;
  const Range part = plan.part(b, owner);
  const std::int64_t to_shard = plan.packed(b).begin - part.begin;
  for (const backend::TensorLayout& tensor : layout.tensors) {
    const std::int64_t begin = std::max(part.begin, tensor.range.begin);
    const std::int64_t end = std::min(part.end, tensor.range.end);
    if (begin < end) pieces.push_back({{begin + to_shard, end + to_shard}, tensor.spec.decays});
  }
  return pieces;
}

}  // namespace

comm::BucketPlan bucket_plan(const SessionOptions& options, const backend::ParameterLayout& layout,
                             int owners) {
  const double elements = options.distributed.bucket_mib * 1048576.0 / sizeof(float);
  return {layout.size, std::max<std::int64_t>(1, static_cast<std::int64_t>(elements)), owners};
}

std::vector<std::vector<optim::UpdatePiece>> shard_pieces(const comm::BucketPlan& plan, int owner,
                                                          const backend::ParameterLayout& layout) {
  std::vector<std::vector<optim::UpdatePiece>> pieces;
  for (std::int64_t b = 0; b < plan.buckets(); ++b) pieces.push_back(pieces_of(plan, b, owner, layout));
  return pieces;
}

}  // namespace vaecf::train
