#include <vaecf/math/ranking.hpp>

#include "device/cuda/device.hpp"
#include "device/cuda/operations/scores.hpp"
#include "device/cuda/operations/vec8.hpp"
#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {
namespace {

/// Users' targets on the device. Those of user u are entries offsets[u] .. offsets[u + 1] of `ids`; arrays
/// with one value per entry start at offsets[0].
struct TargetLists {
  const std::int64_t* offsets = nullptr;
  ItemIds ids;

  VAECF_HD std::int64_t place(std::int64_t entry) const { return entry - offsets[0]; }
};

/// Computes ranks of targets among the scores of their user. A block counts for up to eight targets of one
/// user in one pass over the row, with its counts in registers. ML-20M's users have 14 targets on average, so
/// a row is read from L2 two or three times; one warp per target would read it 14 times. With eight targets,
/// comparisons rather than reads should dominate; with more, most slots would be unused.
struct CountRankedAhead {
  static constexpr int threads = 128;
  static constexpr int piece = 8;
  static constexpr int scratch_bytes = threads * piece * 4;
  static constexpr int vector = 4;

  ScoreRows scores;
  SeenItems held;
  TargetLists targets;
  ItemSlice item_slice;
  const float* target_scores;  // of all item slices, as ItemSliceScores has them; null: those of `scores`
  std::int64_t part_entries;   // entries of each item slice there
  std::int32_t* ranks;         // in a model-parallel group: numbers of items here, or -1 for a masked target

  /// Returns the score of the target `item`, entry `entry` of the lists.
  VAECF_HD float target_score(const float* row, std::int64_t entry, std::int32_t item) const {
    if (target_scores == nullptr) return row[item];
    return target_scores[item % item_slice.step * part_entries + entry - targets.offsets[scores.first_user]];
  }

  /// Returns the first block that counts targets of the `user`-th of these users, given the offsets of the
  /// first one. No list of pieces is needed: each user has at least as many blocks as pieces, up to the first
  /// block of the next user.
  VAECF_HD static std::int64_t first_block(const std::int64_t* offsets, std::int64_t user) {
    return (offsets[user] - offsets[0]) / piece + user;
  }
  /// Returns the number of blocks for `users` users with `entries` targets in total.
  static std::int64_t blocks(std::int64_t users, std::int64_t entries) { return entries / piece + users; }

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t block, std::byte* scratch) const {
    const std::int64_t* offsets = targets.offsets + scores.first_user;
    const std::int64_t row_number =
        partition_point(1, scores.users, [&](std::int64_t u) { return first_block(offsets, u) <= block; }) -
        1;
    const std::int64_t user = scores.first_user + row_number;
    const std::int64_t begin = offsets[row_number] + (block - first_block(offsets, row_number)) * piece;
    const std::int64_t end = offsets[row_number + 1];
    if (begin >= end) return;
    const auto count = static_cast<std::int32_t>(end - begin < piece ? end - begin : piece);
    const float* row = scores.row(user);

    auto* counts = reinterpret_cast<std::int32_t*>(scratch);  // (threads, piece)
    thread_group.each(threads, [&](std::int64_t thread) {
      std::int32_t wanted[piece];
      float wanted_score[piece];
      std::int32_t beating[piece];
      for (int t = 0; t < piece; ++t) {
        const std::int64_t entry = begin + (t < count ? t : 0);
        const std::int32_t item = targets.ids[entry];
        wanted[t] = static_cast<std::int32_t>(item_slice.before(item));
        wanted_score[t] = target_score(row, entry, item);
        beating[t] = 0;
      }
      const auto compare = [&](float score, std::int32_t item, std::int32_t amount) {
        for (int t = 0; t < piece; ++t) {
          beating[t] += math::ranks_ahead(score, item, wanted_score[t], wanted[t]) ? amount : 0;
        }
      };
      const std::int32_t items = scores.items;
      for (std::int32_t i = static_cast<std::int32_t>(thread) * vector; i + vector <= items;
           i += threads * vector) {
        const Vec4 four = load_vec4(row + i);
        for (int j = 0; j < vector; ++j) compare(four.at[j], i + j, 1);
      }
      for (std::int32_t i = items / vector * vector + static_cast<std::int32_t>(thread); i < items;
           i += threads)
        compare(row[i], i, 1);
      const std::int32_t* own = held.begin(user);
      for (std::int64_t k = thread; k < held.count(user); k += threads) compare(row[own[k]], own[k], -1);
      for (int t = 0; t < piece; ++t) counts[thread * piece + t] = beating[t];
    });

    thread_group.each(count, [&](std::int64_t t) {
      std::int32_t rank = 0;
      for (int thread = 0; thread < threads; ++thread) rank += counts[thread * piece + t];
      const std::int32_t target = targets.ids[begin + t];
      if (item_slice.holds(target)) {
        const auto local = static_cast<std::int32_t>(item_slice.local(target));
        const float score = row[local];
        if (math::ranks_ahead(score, target, score, target)) --rank;  // a NaN ranks ahead even of itself
        if (held.holds(user, local)) rank = target_scores == nullptr ? scores.items : -1;
      }
      ranks[targets.place(begin + t)] = rank;
    });
  }
};

/// Copies the scores of targets that this item slice holds.
struct ItemSliceScores {
  static constexpr int threads = 64;
  ScoreRows scores;
  TargetLists targets;
  ItemSlice item_slice;
  float* target_scores;  // (targets of these users)

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t row_number) const {
    const std::int64_t user = scores.first_user + row_number;
    const std::int64_t begin = targets.offsets[user];
    const std::int64_t first = targets.offsets[scores.first_user];
    thread_group.each(targets.offsets[user + 1] - begin, [&](std::int64_t t) {
      const std::int32_t target = targets.ids[begin + t];
      const bool mine = item_slice.holds(target);
      target_scores[begin + t - first] = mine ? scores.row(user)[item_slice.local(target)] : 0.0F;
    });
  }
};

/// Adds the counts of all item slices. A target that is masked where it is held gets the number of all items.
struct AddCounts {
  TargetLists targets;
  ItemSlice item_slice;
  const std::int32_t* counts;  // (item slices, entries)
  std::int64_t entries;
  std::int32_t* ranks;  // (entries)

  VAECF_HD void operator()(std::int64_t e) const {
    const std::int32_t target = targets.ids[targets.offsets[0] + e];
    std::int32_t rank = 0;
    for (std::int64_t s = 0; s < item_slice.step; ++s) rank += counts[s * entries + e];
    const bool masked = counts[target % item_slice.step * entries + e] < 0;
    ranks[e] = masked ? static_cast<std::int32_t>(item_slice.all) : rank;
  }
};

/// Computes the ranks of `targets` of all users, whose offsets the host has as well. In a model-parallel
/// group, the one that holds a target computes its score, all count the items ahead of it, and counts are
/// added.
void count_ranks(Stream& stream, Scorer& scorer, const TargetLists& targets,
                 std::span<const std::int64_t> offsets, std::int32_t* ranks) {
  const Batch& batch = scorer.batch();
  Exchange& exchange = scorer.exchange();
  scorer.for_each_part([&](const ScoreRows& scores) {
    const std::int64_t entries = offsets[scores.first_user + scores.users] - offsets[scores.first_user];
    if (entries == 0) return;
    const float* target_scores = nullptr;
    if (!exchange.alone()) {
      launch(stream, scores.users,
             ItemSliceScores{scores, targets, batch.item_slice(), exchange.values_memory(entries)});
      target_scores = exchange.gather_values(entries);
    }
    launch(stream, CountRankedAhead::blocks(scores.users, entries),
           CountRankedAhead{scores, SeenItems(batch), targets, batch.item_slice(), target_scores, entries,
                            ranks});
  });
  if (exchange.alone()) return;
  const std::int64_t entries = offsets.back() - offsets.front();
  // The bits of integers.
  stream.copy(exchange.values_memory(entries), ranks, entries * 4);
  const auto* counts = reinterpret_cast<const std::int32_t*>(exchange.gather_values(entries));
  launch_elements(stream, entries, AddCounts{targets, batch.item_slice(), counts, entries, ranks});
}

}  // namespace

std::unique_ptr<device::TargetRanks> Device::make_target_ranks(std::int64_t targets) {
  auto ranks = std::make_unique<TargetRanks>(gpu_, targets);
  stream_.memset_zero(ranks->values.data(), ranks->values.bytes());
  return ranks;
}

void Device::rank_targets(const Matrix& hidden, const device::Batch& batch, const device::UserRows& targets,
                          Range rows, const Parameters& parameters, Layer layer, device::TargetRanks& ranks) {
  Scorer scorer(*this, own<Batch>(batch), hidden, parameters, layer);
  rank_targets(scorer, own<UserRows>(targets), rows, own<TargetRanks>(ranks));
}

void Device::rank_targets(Scorer& scorer, const UserRows& targets, Range rows, TargetRanks& to) {
  const Batch& batch = scorer.batch();
  const NvtxRange nvtx("evaluation: ranks");
  const auto offsets = std::span<const std::int64_t>(targets.host_offsets)
                           .subspan(static_cast<std::size_t>(rows.begin), rows.size() + 1);
  const std::int64_t entries = offsets.back() - offsets.front();
  if (entries == 0) return;
  auto* ranks = scratch_.get<std::int32_t>(Scratch::ranks, entries, "ranks");
  scorer.exchange().values_memory(entries);
  count_ranks(stream_, scorer, {targets.offsets() + rows.begin, targets.ids()}, offsets, ranks);
  const Range own = batch.own();
  stream_.copy(to.values.data() + (offsets[own.begin] - targets.host_offsets[0]),
               ranks + (offsets[own.begin] - offsets[0]), (offsets[own.end] - offsets[own.begin]) * 4);
}

std::vector<std::int32_t> Device::read_ranks(device::TargetRanks& ranks_base) {
  auto& ranks = own<TargetRanks>(ranks_base);
  stream_.copy_d2h(ranks.readback.data(), ranks.values.data(), ranks.values.bytes());
  stream_.synchronize();
  return {ranks.readback.data(), ranks.readback.data() + ranks.readback.size()};
}

}  // namespace vaecf::cuda
