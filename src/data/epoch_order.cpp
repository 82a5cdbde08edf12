#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/data/epoch_order.hpp>

#include <algorithm>
#include <limits>
#include <numeric>

#include "data/philox_stream.hpp"

namespace vaecf::data {

EpochOrder::EpochOrder(const VirtualShards& shards, int rank, int ranks, std::int64_t batch_size,
                       bool keep_last, std::uint64_t seed)
    : EpochOrder(shards, shards.owned_shards(rank, ranks), batch_size, keep_last, seed) {}

EpochOrder::EpochOrder(const VirtualShards& shards, Range owned, std::int64_t batch_size, bool keep_last,
                       std::uint64_t seed)
    : shards_(&shards),
      owned_(owned),
      owned_rows_(shards.rows_of(owned)),
      batch_size_(batch_size),
      keep_last_(keep_last),
      seed_(seed) {
  if (batch_size < 1) {
    throw InputError(format("train.batch_size is {}, but a step needs users: give at least 1", batch_size));
  }
  if (shards.range(shards.order().front()).size() > std::numeric_limits<std::int32_t>::max()) {
    throw InputError(
        format("{} train users in {} virtual shards are more than 2^31 a shard: raise "
               "data.virtual_shards",
               shards.rows(), shards.count()));
  }
  permutation_.resize(static_cast<std::size_t>(owned_rows_.size()));
  start_epoch(0);
}

std::int64_t EpochOrder::steps_per_epoch() const {
  const std::int64_t rows = shards_->rows();
  return rows / batch_size_ + (keep_last_ && rows % batch_size_ != 0 ? 1 : 0);
}

std::int64_t EpochOrder::users_per_epoch() const {
  return keep_last_ ? shards_->rows() : steps_per_epoch() * batch_size_;
}

std::int64_t EpochOrder::batch_users(std::int64_t t) const {
  return std::clamp<std::int64_t>(users_per_epoch() - t * batch_size_, 0, batch_size_);
}

std::int64_t EpochOrder::max_local_rows() const {
  const std::int64_t shards = shards_->count();
  std::vector<std::int64_t> owned_before(1, 0);  // among the first k shards of the order
  for (const int v : shards_->order()) {
    owned_before.push_back(owned_before.back() + (v >= owned_.begin && v < owned_.end ? 1 : 0));
  }
  const auto local_before = [&](std::int64_t position) {
    return position / shards * owned_.size() + owned_before[position % shards];
  };
  std::int64_t most = 0;
  for (std::int64_t t = 0; t < steps_per_epoch(); ++t) {
    const std::int64_t first = t * batch_size_;
    most = std::max(most, local_before(first + batch_users(t)) - local_before(first));
  }
  return most;
}

void EpochOrder::start_epoch(std::uint32_t epoch) {
  std::iota(permutation_.begin(), permutation_.end(), std::int64_t{0});
  for (std::int64_t v = owned_.begin; v < owned_.end; ++v) {
    const Range rows = shards_->range(static_cast<int>(v));
    PhiloxStream stream(seed_, static_cast<std::uint32_t>(v), epoch);
    stream.shuffle(std::span(permutation_)
                       .subspan(static_cast<std::size_t>(rows.begin - owned_rows_.begin),
                                static_cast<std::size_t>(rows.size())));
  }
}

std::span<const std::int64_t> EpochOrder::local_rows(std::int64_t t) {
  const std::vector<int>& order = shards_->order();
  const std::int64_t shards = shards_->count();
  const std::int64_t first = t * batch_size_;
  const std::int64_t last = first + batch_users(t);
  batch_.clear();
  for (std::int64_t position = first; position < last; ++position) {
    const int v = order[position % shards];
    if (v < owned_.begin || v >= owned_.end) continue;
    batch_.push_back(permutation_[shards_->range(v).begin - owned_rows_.begin + position / shards]);
  }
  return batch_;
}

}  // namespace vaecf::data
