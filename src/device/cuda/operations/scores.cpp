#include "device/cuda/operations/scores.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace vaecf::cuda {
namespace {

struct Narrow {
  const std::int64_t* from;
  std::int32_t* to;
  VAECF_HD void operator()(std::int64_t i) const { to[i] = static_cast<std::int32_t>(from[i]); }
};

/// Gives the excluded items of each user the score -infinity.
struct Exclude {
  const std::int32_t* excluded;
  std::int64_t count;
  float* scores;
  std::int64_t stride;

  VAECF_HD void operator()(std::int64_t i) const {
    scores[i / count * stride + excluded[i % count]] = -std::numeric_limits<float>::infinity();
  }
};

/// Returns a key that ascends as scores descend. NaN counts as minus infinity; both zeros have the same key.
VAECF_HD std::uint32_t descending_key(float score) {
  if (std::isnan(score)) score = -std::numeric_limits<float>::infinity();
  const auto bits = std::bit_cast<std::uint32_t>(score == 0.0F ? 0.0F : score);
  const std::uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
  return ~ascending;
}
constexpr std::uint32_t masked_key = 0xFFFFFFFFU;  // after minus infinity's key 0xFF800000

/// Writes a sort key for each entry (user, item) of some users.
struct WriteScoreKeys {
  static constexpr int threads = 256;
  ScoreRows scores;
  SeenItems held;
  std::uint32_t* keys;
  std::uint32_t* entries;

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t block) const {
    const std::int64_t user = scores.first_user + block;
    const float* row = scores.row(user);
    const std::int64_t first = block * scores.items;
    thread_group.each(scores.items, [&](std::int64_t i) {
      keys[first + i] = descending_key(row[i]);
      entries[first + i] = static_cast<std::uint32_t>(first + i);
    });
    const std::int32_t* own = held.begin(user);
    thread_group.each(held.count(user), [&](std::int64_t k) { keys[first + own[k]] = masked_key; });
  }
};

struct WriteUserKeys {
  std::uint32_t items;
  const std::uint32_t* entries;
  std::uint32_t* keys;

  VAECF_HD void operator()(std::int64_t i) const { keys[i] = entries[i] / items; }
};

/// Takes the first k sorted entries of each user, as items of all item slices.
struct TakeBest {
  ScoreRows scores;
  SeenItems held;
  ItemSlice item_slice;
  const std::uint32_t* entries;
  std::int64_t k;
  std::int32_t* best;
  float* best_scores;

  VAECF_HD void operator()(std::int64_t i) const {
    const std::int64_t user = scores.first_user + i / k;
    const std::int64_t first = i / k * scores.items;
    const std::int64_t place = i % k;
    const bool filled = place < scores.items - held.count(user);
    const auto item = filled ? static_cast<std::int32_t>(entries[first + place] - first) : -1;
    best[user * k + place] = filled ? static_cast<std::int32_t>(item_slice.global(item)) : -1;
    best_scores[user * k + place] = filled ? scores.row(user)[item] : -std::numeric_limits<float>::infinity();
  }
};

/// Merges the lists of all item slices for one own user per block, by score and then by item. Each entry
/// finds its place by counting the entries ahead of it in the other lists, which are sorted, too.
struct MergeLists {
  static constexpr int threads = 128;
  const std::int32_t* items;       // (item slices, users, k)
  const float* scores;             // like `items`
  std::int64_t item_slice_stride;  // elements between the lists of consecutive item slices
  std::int64_t item_slices;
  std::int64_t first_user;
  std::int64_t k;
  std::int32_t* best;  // (own users, k)
  float* best_scores;

  VAECF_HD bool ahead(std::int64_t a, std::int64_t b) const {
    if (items[a] < 0) return false;
    const std::uint32_t key_a = descending_key(scores[a]);
    const std::uint32_t key_b = descending_key(scores[b]);
    return key_a != key_b ? key_a < key_b : items[a] < items[b];
  }

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t own_user) const {
    const std::int64_t first = (first_user + own_user) * k;
    thread_group.each(k, [&](std::int64_t place) {
      best[own_user * k + place] = -1;
      best_scores[own_user * k + place] = -std::numeric_limits<float>::infinity();
    });
    thread_group.each(item_slices * k, [&](std::int64_t e) {
      const std::int64_t mine = e / k * item_slice_stride + first + e % k;
      if (items[mine] < 0) return;
      std::int64_t place = e % k;
      for (std::int64_t s = 0; s < item_slices && place < k; ++s) {
        if (s == e / k) continue;
        const std::int64_t list = s * item_slice_stride + first;
        place += partition_point(0, k, [&](std::int64_t other) { return ahead(list + other, mine); });
      }
      if (place >= k) return;
      best[own_user * k + place] = items[mine];
      best_scores[own_user * k + place] = scores[mine];
    });
  }
};

}  // namespace

std::unique_ptr<device::ItemMatrix> Device::make_item_matrix(
    std::int64_t items,
    const std::function<void(std::int64_t begin, std::int64_t end, std::span<float> out)>& read_rows) {
  // Products, lists and the users' rows need memory too.
  if (ItemMatrix::bytes(items) > gpu_.free_bytes() - gpu_.total_bytes() / 32) return nullptr;
  auto matrix = std::make_unique<ItemMatrix>(*this, gpu_, items, options_.deterministic);
  const std::int64_t stride = matrix->scores.stride();
  const std::int64_t step = std::max<std::int64_t>(1, (std::int64_t{1} << 22) / stride);
  std::vector<float> logical;
  PinnedArray<float> rows(std::min(step, items) * stride);
  std::fill_n(rows.data(), rows.size(), 0.0F);
  for (std::int64_t begin = 0; begin < items; begin += step) {
    const std::int64_t end = std::min(items, begin + step);
    logical.resize(static_cast<std::size_t>((end - begin) * items));
    read_rows(begin, end, logical);
    stream_.synchronize();  // until the last block was copied
    for (std::int64_t i = 0; i < end - begin; ++i)
      std::copy_n(logical.begin() + i * items, items, rows.data() + i * stride);
    stream_.copy_h2d(matrix->values.data() + begin * stride, rows.data(), (end - begin) * stride * 4);
  }
  stream_.synchronize();
  return matrix;
}

void ItemMatrix::exclude_items(std::span<const std::int32_t> list) {
  Stream& stream = device_.stream_;
  stream.synchronize();  // until the last list is no longer used
  excluded = DeviceArray<std::int32_t>(device_.gpu_, std::ssize(list), what);
  if (list.empty()) return;
  stream.copy_h2d(excluded.data(), list.data(), excluded.bytes());
  stream.synchronize();
}

void ItemMatrix::score(const device::Batch& batch_base, std::int64_t entries) {
  const auto& batch = own<Batch>(batch_base);
  const NvtxRange nvtx("scores of items");
  Stream& stream = device_.stream_;
  const std::int64_t users = batch.users();
  scores.set_rows(users);
  if (users == 0) return;
  if (entries == 0) {
    stream.memset_zero(scores.values(), users * scores.stride() * 4);
  } else {
    if (!batch.has_values && ones.size() < entries) {
      stream.synchronize();
      ones = Buffer();
      ones = Buffer(DeviceArray<float>(device_.gpu_, entries, what));
      device_.fill(ones, 1.0F);
    }
    launch_elements(stream, users + 1, Narrow{batch.offsets.data(), offsets.data()});
    const float* x = batch.has_values ? batch.values.data() : ones.data();
    products.run(stream, {offsets.data(), batch.columns.data(), x, users, items, entries}, values.data(),
                 scores.stride(), items, scores.values(), scores.stride());
  }
  const std::int64_t count = excluded.size();
  if (count == 0) return;
  launch_elements(stream, count * users, Exclude{excluded.data(), count, scores.values(), scores.stride()});
}

void ItemMatrix::rank_targets(const device::Batch& batch, const device::UserRows& targets, Range rows,
                              device::TargetRanks& ranks) {
  Scorer scorer(device_, own<Batch>(batch), *this);
  device_.rank_targets(scorer, own<UserRows>(targets), rows, own<TargetRanks>(ranks));
}

void ItemMatrix::top_k(const device::Batch& batch, int k, std::span<std::int32_t> best,
                       std::span<float> best_scores) {
  Scorer scorer(device_, own<Batch>(batch), *this);
  device_.sort_scores(scorer, k, best, best_scores);
}

void ItemMatrix::read_row(std::int64_t item, std::span<float> row) const {
  Stream& stream = device_.stream_;
  stream.copy_d2h(row.data(), values.data() + item * scores.stride(), items * 4);
  stream.synchronize();
}

void Device::top_k(const Matrix& hidden, const device::Batch& batch, const Parameters& parameters,
                   Layer layer, int k, std::span<std::int32_t> items, std::span<float> scores) {
  Scorer scorer(*this, own<Batch>(batch), hidden, parameters, layer);
  sort_scores(scorer, k, items, scores);
}

/// Rows are sorted completely, for any k: the entries of many users at once, stably by score and then by
/// user, so that equal scores stay in item order. For k = 10 this costs about as much as selecting one item
/// after the other, and for large k far less.
void Device::sort_scores(Scorer& scorer, int k, std::span<std::int32_t> items, std::span<float> scores) {
  const NvtxRange nvtx("recommendation: top k");
  const Batch& batch = scorer.batch();
  Exchange& exchange = scorer.exchange();
  const std::int64_t users = batch.users();
  const std::int64_t all_places = users * k;
  if (all_places == 0) return;
  if (!exchange.alone()) exchange.values_memory(2 * all_places);
  auto* best = scratch_.get<std::int32_t>(Scratch::ranks, all_places, "best items");
  auto* best_scores = scratch_.get<float>(Scratch::per_user, all_places, "best items");
  const SeenItems held(batch);
  constexpr std::int64_t sorted_entries = std::int64_t{1} << 21;
  const std::int64_t sorted_users =
      std::clamp<std::int64_t>(sorted_entries / std::max<std::int64_t>(scorer.items(), 1), 1, users);
  const std::int64_t capacity = sorted_users * scorer.items();
  auto* keys = scratch_.get<std::uint32_t>(Scratch::products, 4 * capacity, "best items");
  auto* sorted_keys = keys + capacity;
  auto* entries = keys + 2 * capacity;
  auto* sorted = keys + 3 * capacity;

  join(sort_);  // it uses the scratch memory of the sorts below
  scorer.for_each_part([&](const ScoreRows& part) {
    for (std::int64_t first = 0; first < part.users; first += sorted_users) {
      ScoreRows rows = part;
      rows.values += first * part.stride;
      rows.first_user += first;
      rows.users = std::min(sorted_users, part.users - first);
      const std::int64_t n = rows.users * rows.items;
      launch(stream_, rows.users, WriteScoreKeys{rows, held, keys, entries});
      primitives_.sort_pairs(stream_, keys, sorted_keys, entries, sorted, n, 32);
      launch_elements(stream_, n, WriteUserKeys{static_cast<std::uint32_t>(rows.items), sorted, keys});
      const int bits =
          std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(rows.users - 1))));
      primitives_.sort_pairs(stream_, keys, sorted_keys, sorted, entries, n, bits);
      launch_elements<128>(stream_, rows.users * k,
                           TakeBest{rows, held, batch.item_slice(), entries, k, best, best_scores});
    }
  });

  const Range own = batch.own();
  const std::int64_t places = own.size() * k;
  if (!exchange.alone()) {
    float* mine = exchange.values_memory(2 * all_places);
    stream_.copy(mine, best, all_places * 4);  // the bits of integers
    stream_.copy(mine + all_places, best_scores, all_places * 4);
    const float* all = exchange.gather_values(2 * all_places);
    launch(stream_, own.size(),
           MergeLists{.items = reinterpret_cast<const std::int32_t*>(all),
                      .scores = all + all_places,
                      .item_slice_stride = 2 * all_places,
                      .item_slices = exchange.item_slices(),
                      .first_user = own.begin,
                      .k = k,
                      .best = best,
                      .best_scores = best_scores});
  }

  if (places == 0) return;
  if (staging_.size() < 2 * places) staging_ = PinnedArray<float>(2 * places);
  float* scores_back = staging_.data() + places;
  stream_.copy_d2h(staging_.data(), best, places * 4);
  stream_.copy_d2h(scores_back, best_scores, places * 4);
  stream_.synchronize();
  std::memcpy(items.data(), staging_.data(), static_cast<std::size_t>(places) * 4);
  std::copy_n(scores_back, places, scores.data());
}

}  // namespace vaecf::cuda
