#include <vaecf/device/cuda/device.hpp>
#include <vaecf/math/user_metrics.hpp>

#include <algorithm>
#include <stdexcept>

#include "device/cuda/kernels/vec8.hpp"
#include "device/cuda/layers/scores.hpp"
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
  std::int32_t* ranks;

  /// Returns the first block that counts targets of the `user`-th of these users, given the offsets of the
  /// first one. No list of pieces is needed: each user has at least as many blocks as pieces, up to the first
  /// block of the next user.
  VAECF_HD static std::int64_t first_block(const std::int64_t* offsets, std::int64_t user) {
    return (offsets[user] - offsets[0]) / piece + user;
  }
  /// Returns the number of blocks for `users` users with `entries` targets in total.
  static std::int64_t blocks(std::int64_t users, std::int64_t entries) { return entries / piece + users; }

  VAECF_HD static std::int64_t user_of(const std::int64_t* offsets, std::int64_t users, std::int64_t block) {
    std::int64_t low = 0;
    std::int64_t high = users - 1;
    while (low < high) {
      const std::int64_t middle = (low + high + 1) / 2;
      if (first_block(offsets, middle) <= block) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte* scratch) const {
    const std::int64_t* offsets = targets.offsets + scores.first_user;
    const std::int64_t row_number = user_of(offsets, scores.users, block);
    const std::int64_t user = scores.first_user + row_number;
    const std::int64_t begin = offsets[row_number] + (block - first_block(offsets, row_number)) * piece;
    const std::int64_t end = offsets[row_number + 1];
    if (begin >= end) return;
    const auto count = static_cast<std::int32_t>(end - begin < piece ? end - begin : piece);
    const float* row = scores.row(user);

    auto* counts = reinterpret_cast<std::int32_t*>(scratch);  // (threads, piece)
    group.each(threads, [&](std::int64_t thread) {
      std::int32_t wanted[piece];
      float wanted_score[piece];
      std::int32_t beating[piece];
      for (int t = 0; t < piece; ++t) {
        wanted[t] = targets.ids[begin + (t < count ? t : 0)];
        wanted_score[t] = row[wanted[t]];
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

    group.each(count, [&](std::int64_t t) {
      std::int32_t rank = 0;
      for (int thread = 0; thread < threads; ++thread) rank += counts[thread * piece + t];
      const std::int32_t target = targets.ids[begin + t];
      const float score = row[target];
      if (math::ranks_ahead(score, target, score, target)) --rank;  // a NaN ranks ahead even of itself
      ranks[targets.place(begin + t)] = held.holds(user, target) ? scores.items : rank;
    });
  }
};

/// Computes metrics of users, one value per block. Metric m of user u is written to values[m * stride + u];
/// it is 0 if the user has no target.
struct MetricsOfUsers {
  static constexpr int threads = 32;
  static constexpr int scratch_bytes = 0;
  static constexpr std::size_t max_count = 32;
  math::Metric metrics[max_count];
  std::int64_t users;
  std::int64_t items;
  TargetLists targets;
  const std::int32_t* ranks;
  double* values;
  std::int64_t stride;

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte*) const {
    const std::int64_t user = block % users;
    const std::int64_t metric = block / users;
    const std::int64_t begin = targets.offsets[user];
    const double value = math::user_metric(group, metrics[metric], ranks + targets.place(begin),
                                           targets.offsets[user + 1] - begin, items);
    group.each(1, [&](std::int64_t) { values[metric * stride + user] = value; });
  }
};

/// Computes the ranks of `targets`, whose offsets the host has as well.
void count_ranks(Scorer& scorer, const Batch& batch, const TargetLists& targets,
                 std::span<const std::int64_t> offsets, std::int32_t* ranks) {
  scorer.for_each_part([&](const ScoreRows& scores) {
    const std::int64_t entries = offsets[scores.first_user + scores.users] - offsets[scores.first_user];
    if (entries == 0) return;
    launch(scorer.stream(), CountRankedAhead::blocks(scores.users, entries),
           CountRankedAhead{scores, SeenItems(batch), targets, ranks});
  });
}

}  // namespace

void Device::rank_targets(const Activations& hidden, const Batch& batch, CsrView targets,
                          const Parameters& parameters, device::Layer layer, std::span<std::int32_t> ranks) {
  const NvtxRange nvtx("evaluation: ranks");
  const std::int64_t entries = targets.entries();
  if (entries == 0) return;
  auto* found = scratch_.get<std::int32_t>(Scratch::ranks, entries, "ranks");
  Scorer scorer(stream_, matmuls_, scratch_, dtype(), hidden, parameters, layer);
  const UserRows lists(gpu_, stream_, targets, 0, scorer.items(), device::one_slice(), true, "");
  count_ranks(scorer, batch, {lists.offsets(), lists.ids()}, targets.offsets, found);
  PinnedArray<std::int32_t> back(entries);
  stream_.copy_d2h(back.data(), found, entries * 4);
  stream_.synchronize();
  std::copy_n(back.data(), entries, ranks.data());
}

std::unique_ptr<MetricValues> Device::make_metric_values(std::size_t metrics, std::int64_t users) {
  auto values = std::make_unique<MetricValues>(gpu_, metrics, users);
  stream_.memset_zero(values->values.data(), values->values.bytes());
  return values;
}

void Device::compute_metrics(const Activations& hidden, const Batch& batch, const UserRows& targets,
                             Range rows, const Parameters& parameters, device::Layer layer,
                             std::span<const math::Metric> metrics, MetricValues& values) {
  const NvtxRange nvtx("evaluation: metrics");
  const std::int64_t users = rows.size();
  if (users != batch.users() || std::ssize(metrics) * values.users != values.values.size()) {
    throw std::logic_error(
        "compute_metrics: needs one target row per user and one value per metric and user");
  }
  const auto offsets =
      std::span<const std::int64_t>(targets.host_offsets)
          .subspan(static_cast<std::size_t>(rows.begin), static_cast<std::size_t>(users) + 1);
  const std::int64_t entries = offsets.back() - offsets.front();
  if (entries == 0) return;

  const TargetLists lists{targets.offsets() + rows.begin, targets.ids()};
  auto* ranks = scratch_.get<std::int32_t>(Scratch::ranks, entries, "ranks");
  Scorer scorer(stream_, matmuls_, scratch_, dtype(), hidden, parameters, layer);
  count_ranks(scorer, batch, lists, offsets, ranks);

  for (std::size_t first = 0; first < metrics.size(); first += MetricsOfUsers::max_count) {
    const auto some = metrics.subspan(first, std::min(MetricsOfUsers::max_count, metrics.size() - first));
    double* to = values.values.data() + static_cast<std::int64_t>(first) * values.users + rows.begin;
    MetricsOfUsers body{{}, users, scorer.items(), lists, ranks, to, values.users};
    std::ranges::copy(some, body.metrics);
    launch(stream_, std::ssize(some) * users, body);
  }
}

std::vector<double> Device::read_metrics(MetricValues& values) {
  stream_.copy_d2h(values.readback.data(), values.values.data(), values.values.bytes());
  stream_.synchronize();
  return {values.readback.data(), values.readback.data() + values.readback.size()};
}

}  // namespace vaecf::cuda
