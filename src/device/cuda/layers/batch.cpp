#include <vaecf/device/cuda/device.hpp>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

#include "device/cuda/kernels/eights.hpp"
#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {
namespace {

constexpr const char* order_name = "the order of batches";
constexpr const char* row_sizes = "the sizes of users' rows";
constexpr std::int64_t nothing[] = {0};

/// Selects the rows of a source that form the batch: user u is row(u).
struct Choice {
  const std::int64_t* rows = nullptr;
  const std::int64_t* begin = nullptr;  // start of each batch in `rows`; null: 0
  const StepRecord* record = nullptr;   // selects the batch if `begin` is set

  VAECF_HD std::int64_t row(std::int64_t u) const {
    return rows[(begin != nullptr ? begin[record->numbers.batch] : 0) + u];
  }
};

struct CountEntries {
  static constexpr int threads = 128;
  static constexpr int scratch_bytes = 0;
  Choice choice;
  const std::int64_t* source_offsets;
  std::int64_t first_user;
  std::int64_t users;
  std::int32_t* counts;         // (users)
  std::uint32_t* user_numbers;  // (users)

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t block, std::byte*) const {
    each_of_grid<threads>(lanes, block, users, [&](std::int64_t u) {
      const std::int64_t row = choice.row(u);
      counts[u] = static_cast<std::int32_t>(source_offsets[row + 1] - source_offsets[row]);
      user_numbers[u] = static_cast<std::uint32_t>(first_user + row);
    });
  }
};

/// One user per block, each with 5 to a few thousand items.
struct GatherRows {
  static constexpr int threads = 64;
  static constexpr int scratch_bytes = 0;
  Choice choice;
  const std::int64_t* source_offsets;
  ItemIds ids;
  const std::int64_t* offsets;  // offsets of the batch, (users + 1)
  std::int32_t* columns;
  std::uint32_t* keys;  // like `entry_users`; null: no transpose needed
  std::uint32_t* entry_users;

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t user, std::byte*) const {
    const std::int64_t from = source_offsets[choice.row(user)];
    const std::int64_t to = offsets[user];
    lanes.each(offsets[user + 1] - to, [&](std::int64_t k) {
      const std::int32_t item = ids[from + k];
      columns[to + k] = item;
      if (keys == nullptr) return;
      keys[to + k] = static_cast<std::uint32_t>(item);
      entry_users[to + k] = static_cast<std::uint32_t>(user);
    });
  }
};

/// Keys after the last entry sort after all items.
struct MarkRest {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = 0;
  const std::int64_t* entries;
  std::int64_t room;
  std::int64_t items;
  std::uint32_t* keys;
  std::uint32_t* entry_users;

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t block, std::byte*) const {
    each_of_grid<threads>(lanes, block, room, [&](std::int64_t k) {
      if (k < *entries) return;
      keys[k] = static_cast<std::uint32_t>(items);
      entry_users[k] = 0;
    });
  }
};

/// Computes item_begin[i] = number of entries of items before i.
struct FindItems {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = 0;
  const std::uint32_t* sorted_keys;
  const std::int64_t* entries;
  std::int64_t items;
  std::int64_t* item_begin;  // (items + 1)

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t block, std::byte*) const {
    each_of_grid<threads>(lanes, block, items + 1, [&](std::int64_t item) {
      std::int64_t low = 0;
      std::int64_t high = *entries;
      while (low < high) {
        const std::int64_t middle = (low + high) / 2;
        if (sorted_keys[middle] < static_cast<std::uint64_t>(item)) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      item_begin[item] = low;
    });
  }
};

/// Gathers the rows of `from` that `choice` selects into `batch`, which has capacity for `room` entries;
/// `exact`: that is the exact number.
void gather(Queue& queue, Primitives& primitives, std::int32_t* counts, const UserRows& from,
            const Choice& choice, std::int64_t users, std::int64_t room, bool exact, bool transpose,
            Batch& batch) {
  batch.users_ = users;
  batch.items = from.items();
  batch.max_entries = room;
  batch.has_transpose = transpose;
  launch(queue, blocks_for(users, CountEntries::threads),
         CountEntries{choice, from.offsets(), from.first_user(), users, counts, batch.user_numbers.data()});
  primitives.running_sum(queue, counts, users, batch.offsets.data());
  std::uint32_t* keys = transpose ? batch.keys.data() : nullptr;
  std::uint32_t* entry_users = batch.entry_users.data();
  launch(queue, users,
         GatherRows{choice, from.offsets(), from.ids(), batch.offsets.data(), batch.columns.data(), keys,
                    entry_users});
  if (!transpose) return;

  // The transpose by a stable sort: users of an item stay in ascending order.
  const std::int64_t* entries = batch.offsets.data() + users;
  if (!exact) {
    launch(queue, blocks_for(room, MarkRest::threads),
           MarkRest{entries, room, batch.items, keys, entry_users});
  }
  primitives.sort_pairs(queue, keys, batch.sorted_keys.data(), entry_users, batch.item_users.data(), room,
                        std::bit_width(static_cast<std::uint64_t>(batch.items)));
  launch(queue, blocks_for(batch.items + 1, FindItems::threads),
         FindItems{batch.sorted_keys.data(), entries, batch.items, batch.item_begin.data()});
}

}  // namespace

std::unique_ptr<BatchOrder> Device::make_batch_order() {
  return std::make_unique<BatchOrder>();
}

void Device::set_batch_order(const UserRows& source, std::span<const std::int64_t> rows,
                             std::span<const std::int64_t> begin, BatchOrder& order) {
  generation_.require_free(order_name);
  if (begin.empty()) begin = nothing;
  const auto outside = [&](std::int64_t row) { return row < 0 || row >= source.rows(); };
  if (begin.front() < 0 || begin.back() > static_cast<std::int64_t>(rows.size()) ||
      !std::is_sorted(begin.begin(), begin.end()) || std::any_of(rows.begin(), rows.end(), outside)) {
    throw std::out_of_range("set_batch_order: a row index is out of range");
  }
  order.begin.assign(begin.begin(), begin.end());
  std::int64_t users = 0;
  std::int64_t entries = 0;
  for (std::int64_t t = 0; t < order.batches(); ++t) {
    users = std::max(users, order.users(t));
    entries = std::max(entries, source.entries_of(rows.subspan(static_cast<std::size_t>(begin[t]),
                                                               static_cast<std::size_t>(order.users(t)))));
  }
  if (users > order.max_users || entries > order.max_entries) ++generation_.value;
  order.max_users = std::max(order.max_users, users);
  if (entries > order.max_entries) {
    order.max_entries = std::max(entries, std::min(entries + entries / 8 + 1024, source.host_offsets.back()));
  }
  queue_.finish();
  const auto copy = [&](std::span<const std::int64_t> numbers, DeviceArray<std::int64_t>& on_device) {
    grow(gpu_, generation_, static_cast<std::int64_t>(numbers.size()), order_name, on_device);
    queue_.copy_in(on_device.data(), numbers.data(), static_cast<std::int64_t>(numbers.size_bytes()));
  };
  copy(rows, order.device_rows);
  copy(begin, order.device_begin);
}

void Device::gather_step(const UserRows& source, const BatchOrder& order, const StepState& step,
                         std::int64_t users, Batch& batch) {
  const NvtxRange nvtx("input: batch");
  const std::int64_t t = step.numbers.batch;
  if (t < 0 || t >= order.batches() || users != order.users(t)) {
    throw std::logic_error("gather_step: the step's batch is not in the order, or `users` is not its size");
  }
  batch.reserve(order.max_users, order.max_entries, source.items(), true);
  auto* counts = scratch_.get<std::int32_t>(Scratch::per_user, order.max_users, row_sizes);
  const Choice choice{order.device_rows.data(), order.device_begin.data(), step.record.data()};
  gather(queue_, primitives_, counts, source, choice, users, order.max_entries, false, true, batch);
}

void Device::gather_batch(const UserRows& source, std::span<const std::int64_t> rows, bool with_transpose,
                          Batch& batch) {
  const NvtxRange nvtx("batch");
  generation_.require_free("gather_batch");
  const auto users = static_cast<std::int64_t>(rows.size());
  for (const std::int64_t row : rows) {
    if (row < 0 || row >= source.rows()) throw std::out_of_range("gather_batch: a row index is out of range");
  }
  const std::int64_t entries = source.entries_of(rows);
  batch.reserve(users, entries, source.items(), with_transpose);
  auto* picked = scratch_.get<std::int64_t>(Scratch::per_entry, users, "the row indices of a batch");
  queue_.copy_in(picked, rows.data(), users * 8);
  auto* counts = scratch_.get<std::int32_t>(Scratch::per_user, users, row_sizes);
  gather(queue_, primitives_, counts, source, {.rows = picked}, users, entries, true, with_transpose, batch);
}

}  // namespace vaecf::cuda
