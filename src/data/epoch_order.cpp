#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/data/epoch_order.hpp>

#include <algorithm>
#include <future>
#include <limits>
#include <memory>
#include <numeric>
#include <span>

#include "data/philox_stream.hpp"

namespace vaecf::data {
namespace {

/// Calls work(begin, end) for `threads` parts of [0, count), for the last part on this thread.
template <class Work>
void on_threads(int threads, std::int64_t count, const Work& work) {
  if (count == 0) return;
  std::vector<std::future<void>> others;
  for (std::int64_t i = 0; i + 1 < threads; ++i) {
    others.push_back(std::async(std::launch::async, work, count * i / threads, count * (i + 1) / threads));
  }
  work(count * (threads - 1) / threads, count);
  for (std::future<void>& other : others) other.get();
}

}  // namespace

EpochOrder::EpochOrder(const VirtualShards& shards, int rank, int ranks, std::int64_t batch_size,
                       bool keep_last, std::uint64_t seed)
    : EpochOrder(shards, shards.owned_shards(rank, ranks), batch_size, keep_last, seed) {}

EpochOrder::EpochOrder(const VirtualShards& shards, Range owned, std::int64_t batch_size, bool keep_last,
                       std::uint64_t seed)
    : shards_(&shards), owned_(owned), batch_size_(batch_size), keep_last_(keep_last), seed_(seed) {
  if (batch_size < 1) {
    throw InputError(format("train.batch_size is {}, but a step needs users: give at least 1", batch_size));
  }
  if (shards.range(shards.order().front()).size() > std::numeric_limits<std::int32_t>::max()) {
    throw InputError(
        format("{} train users in {} virtual shards are more than 2^31 a shard: raise "
               "data.virtual_shards",
               shards.rows(), shards.count()));
  }
  owned_before_.push_back(0);
  for (const int v : shards.order()) {
    if (v >= owned.begin && v < owned.end) {
      first_rows_.push_back(shards.range(v).begin - shards.range(static_cast<int>(owned.begin)).begin);
    }
    owned_before_.push_back(static_cast<std::int64_t>(first_rows_.size()));
  }
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

std::int64_t EpochOrder::local_before(std::int64_t position) const {
  const std::int64_t shards = shards_->count();
  return position / shards * owned_.size() + owned_before_[position % shards];
}

std::int64_t EpochOrder::max_local_rows() const {
  std::int64_t most = 0;
  for (std::int64_t t = 0; t < steps_per_epoch(); ++t) {
    const std::int64_t first = t * batch_size_;
    most = std::max(most, local_before(first + batch_users(t)) - local_before(first));
  }
  return most;
}

EpochRows EpochOrder::draw(std::int64_t epoch, int threads) const {
  const Range owned_rows = shards_->rows_of(owned_);
  const auto size = static_cast<std::size_t>(owned_rows.size());
  // Rows within their shard. Each thread is the first to touch its part.
  const auto permutation = std::make_unique_for_overwrite<std::int32_t[]>(size);
  on_threads(threads, owned_.size(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t v = owned_.begin + begin; v < owned_.begin + end; ++v) {
      const Range rows = shards_->range(static_cast<int>(v));
      const std::span part(permutation.get() + (rows.begin - owned_rows.begin),
                           static_cast<std::size_t>(rows.size()));
      std::iota(part.begin(), part.end(), 0);
      PhiloxStream(seed_, static_cast<std::uint32_t>(v), static_cast<std::uint32_t>(epoch)).shuffle(part);
    }
  });

  EpochRows drawn{epoch, {}, {0}};
  for (std::int64_t t = 0; t < steps_per_epoch(); ++t) {
    drawn.begin.push_back(local_before(t * batch_size_ + batch_users(t)));
  }
  drawn.rows.resize(static_cast<std::size_t>(drawn.begin.back()));
  on_threads(threads, drawn.begin.back(), [&](std::int64_t begin, std::int64_t end) {
    std::int64_t k = begin % owned_.size();
    std::int64_t turn = begin / owned_.size();
    for (std::int64_t i = begin; i < end; ++i) {
      drawn.rows[i] = first_rows_[k] + permutation[first_rows_[k] + turn];
      if (++k < owned_.size()) continue;
      k = 0;
      ++turn;
    }
  });
  return drawn;
}

}  // namespace vaecf::data
