#include <vaecf/base/error.hpp>
#include <vaecf/base/parallel_for.hpp>
#include <vaecf/data/shards.hpp>

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "data/random.hpp"

namespace vaecf::data {
namespace {

// Returns 0..count-1 in bit-reversed order. If count is not a power of two, the order of the next power of
// two is used and larger values are skipped.
std::vector<int> bit_reversed_order(int count) {
  const auto size = std::bit_ceil(static_cast<std::uint32_t>(count));
  const int bits = std::countr_zero(size);
  std::vector<int> order;
  order.reserve(count);
  for (std::uint32_t k = 0; k < size; ++k) {
    std::uint32_t mirrored = 0;
    for (int bit = 0; bit < bits; ++bit) mirrored |= ((k >> bit) & 1u) << (bits - 1 - bit);
    if (mirrored < static_cast<std::uint32_t>(count)) order.push_back(static_cast<int>(mirrored));
  }
  return order;
}

}  // namespace

DistributedBatchSampler::DistributedBatchSampler(const VirtualShards& shards, Range owned,
                                                 std::int64_t batch_size, bool keep_last, std::uint64_t seed)
    : shards_(&shards), owned_(owned), batch_size_(batch_size), keep_last_(keep_last), seed_(seed) {
  if (batch_size < 1) throw InputError(format("train.batch_size: must be at least 1, got {}", batch_size));
  if (shards.range(shards.order().front()).size() > std::numeric_limits<std::int32_t>::max()) {
    throw InputError(format(
        "{} train users in {} virtual shards exceed 2^31 - 1 users per shard; increase data.virtual_shards",
        shards.rows(), shards.count()));
  }
  owned_before_.push_back(0);
  for (const int v : shards.order()) {
    if (v >= owned.begin && v < owned.end)
      first_rows_.push_back(shards.range(v).begin - shards.range(static_cast<int>(owned.begin)).begin);
    owned_before_.push_back(static_cast<std::int64_t>(first_rows_.size()));
  }
}

std::int64_t DistributedBatchSampler::steps_per_epoch() const {
  const std::int64_t rows = shards_->rows();
  return rows / batch_size_ + (keep_last_ && rows % batch_size_ != 0 ? 1 : 0);
}

std::int64_t DistributedBatchSampler::users_per_epoch() const {
  return keep_last_ ? shards_->rows() : steps_per_epoch() * batch_size_;
}

std::int64_t DistributedBatchSampler::batch_users(std::int64_t t) const {
  return std::clamp<std::int64_t>(users_per_epoch() - t * batch_size_, 0, batch_size_);
}

std::int64_t DistributedBatchSampler::local_before(std::int64_t position) const {
  const std::int64_t shards = shards_->count();
  return position / shards * owned_.size() + owned_before_[position % shards];
}

std::int64_t DistributedBatchSampler::local_rows(std::int64_t t) const {
  const std::int64_t first = t * batch_size_;
  return local_before(first + batch_users(t)) - local_before(first);
}

std::int64_t DistributedBatchSampler::max_local_rows() const {
  std::int64_t most = 0;
  for (std::int64_t t = 0; t < steps_per_epoch(); ++t) most = std::max(most, local_rows(t));
  return most;
}

EpochRows DistributedBatchSampler::sample(std::int64_t epoch, int threads, bool pads) const {
  const Range owned_rows = shards_->rows_of(owned_);
  // Row indices within each shard.
  const auto permutation = std::make_unique_for_overwrite<std::int32_t[]>(owned_rows.size());
  const auto shuffle = [&](std::int64_t v) {
    const Range rows = shards_->range(static_cast<int>(v));
    const std::span part(permutation.get() + (rows.begin - owned_rows.begin), rows.size());
    std::iota(part.begin(), part.end(), 0);
    PhiloxStream(seed_, static_cast<std::uint32_t>(v), static_cast<std::uint32_t>(epoch)).shuffle(part);
  };
  parallel_for(threads, owned_, shuffle, NoProgress{}, 1);

  EpochRows drawn{epoch, {}, {0}};
  const std::int64_t padded = pads ? max_local_rows() : 0;
  for (std::int64_t t = 0; t < steps_per_epoch(); ++t)
    drawn.begin.push_back(drawn.begin.back() +
                          (pads && batch_users(t) == batch_size_ ? padded : local_rows(t)));
  drawn.rows.assign(drawn.begin.back(), -1);
  const auto take = [&](std::int64_t t) {
    const std::int64_t before = local_before(t * batch_size_);
    const std::int64_t end = before + local_rows(t);
    for (std::int64_t i = before; i < end; ++i) {
      const std::int64_t first = first_rows_[i % owned_.size()];
      drawn.rows[drawn.begin[t] + i - before] = first + permutation[first + i / owned_.size()];
    }
  };
  parallel_for(threads, {0, steps_per_epoch()}, take, NoProgress{}, 1 + (1 << 16) / batch_size_);
  return drawn;
}

VirtualShards::VirtualShards(std::int64_t rows, int shards) : rows_(rows) {
  constexpr int max_shards = 1 << 20;
  if (shards < 1 || shards > max_shards) {
    throw InputError(format(
        "data.virtual_shards must be between 1 and {}, got {}; choose at least the maximum number of ranks that will be used",
        max_shards, shards));
  }
  if (rows < 0) throw InputError(format("a dataset cannot have {} train users", rows));

  order_ = bit_reversed_order(shards);
  std::vector<std::int64_t> size(shards, rows / shards);
  for (std::int64_t k = 0; k < rows % shards; ++k) ++size[order_[k]];
  begin_.assign(1, 0);
  for (const std::int64_t s : size) begin_.push_back(begin_.back() + s);
}

Range VirtualShards::owned_shards(int rank, int ranks) const {
  const std::int64_t shards = count();
  if (ranks > shards) {
    throw InputError(format(
        "{} ranks cannot share {} virtual shards, since each needs at least one; start at most {} ranks, or increase data.virtual_shards (which requires a new run)",
        ranks, shards, shards));
  }
  return {rank * shards / ranks, (rank + 1) * shards / ranks};
}

HeldOutUsers read_held_out(const io::DatasetFile& file, const std::string& split, int rank, int ranks) {
  const std::string fold_in = split + "/fold_in";
  const std::string targets = split + "/held_out";
  const std::int64_t users = file.rows(fold_in);
  if (file.rows(targets) != users) {
    throw InputError(format(
        "{}: /{} has {} users, but /{} has {}; both must have the same users; create the file again with `prepare`",
        file.path(), fold_in, users, targets, file.rows(targets)));
  }
  const Range rows{rank * users / ranks, (rank + 1) * users / ranks};
  Csr features;
  if (file.features() > 0) features = file.read_rows(split + "/user_features", rows);
  return {file.read_rows(fold_in, rows), file.read_rows(targets, rows), std::move(features), rows};
}

}  // namespace vaecf::data
