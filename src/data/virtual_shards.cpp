#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/data/virtual_shards.hpp>

#include <bit>

namespace vaecf::data {
namespace {

// 0..count-1 in the order of their mirrored bits. Where count is no power of two, numbers of the next power
// of two that are too large are left out.
std::vector<int> bit_reversed_order(int count) {
  const auto size = std::bit_ceil(static_cast<std::uint32_t>(count));
  const int bits = std::countr_zero(size);
  std::vector<int> order;
  order.reserve(static_cast<std::size_t>(count));
  for (std::uint32_t k = 0; k < size; ++k) {
    std::uint32_t mirrored = 0;
    for (int bit = 0; bit < bits; ++bit) mirrored |= ((k >> bit) & 1u) << (bits - 1 - bit);
    if (mirrored < static_cast<std::uint32_t>(count)) order.push_back(static_cast<int>(mirrored));
  }
  return order;
}

}  // namespace

VirtualShards::VirtualShards(std::int64_t rows, int shards) : rows_(rows) {
  constexpr int most_shards = 1 << 20;
  if (shards < 1 || shards > most_shards) {
    throw InputError(
        format("data.virtual_shards is {}, but must be between 1 and {}: choose at least the "
               "largest number of ranks you will ever train with",
               shards, most_shards));
  }
  if (rows < 0) throw InputError(format("a data set cannot have {} train users", rows));

  order_ = bit_reversed_order(shards);
  std::vector<std::int64_t> size(static_cast<std::size_t>(shards), rows / shards);
  for (std::int64_t k = 0; k < rows % shards; ++k) ++size[order_[k]];
  begin_.assign(1, 0);
  for (const std::int64_t s : size) begin_.push_back(begin_.back() + s);
}

Range VirtualShards::owned_shards(int rank, int ranks) const {
  const std::int64_t shards = count();
  if (ranks > shards) {
    throw InputError(
        format("{} ranks cannot share {} virtual shards, since each needs one: start at most {} "
               "ranks, or raise data.virtual_shards (which starts a new run)",
               ranks, shards, shards));
  }
  return {rank * shards / ranks, (rank + 1) * shards / ranks};
}

Range VirtualShards::owned_rows(int rank, int ranks) const {
  return rows_of(owned_shards(rank, ranks));
}

}  // namespace vaecf::data
