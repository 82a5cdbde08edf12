#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

#include "cuda_backend.hpp"
#include "eights.hpp"
#include "nvtx.hpp"

namespace vaecf::cuda {
namespace {

/// Which rows of a source make the batch: user u is row(u).
struct Choice {
  const std::int64_t* rows = nullptr;   // null: 0, 1, 2, ..
  const std::int64_t* begin = nullptr;  // of each batch in `rows`; null: 0
  const StepRecord* record = nullptr;   // says which batch, where there is `begin`

  VAECF_HD std::int64_t row(std::int64_t u) const {
    if (rows == nullptr) return u;
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

/// One user to a block; they have 5 to some thousands of items.
struct CutRows {
  static constexpr int threads = 64;
  static constexpr int scratch_bytes = 0;
  Choice choice;
  const std::int64_t* source_offsets;
  ItemIds ids;
  const std::int64_t* offsets;  // (users + 1), of the batch
  std::int32_t* columns;
  std::uint32_t* keys;  // with `entry_users`; null: no transpose is wanted
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

/// Keys behind the last entry sort behind all items.
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

/// item_begin[i] = how many entries are of items before i.
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

void set_size(CudaBatch& batch, std::int64_t users, std::int64_t room, std::int64_t items, bool transpose) {
  batch.users_ = users;
  batch.items = items;
  batch.max_entries = room;
  batch.has_transpose = transpose;
}

/// Cuts `choice` of a source whose offsets and ids are on the device; the batch's own offsets are there
/// already. `exact`: room is what it holds, and no more.
void cut(Queue& queue, Primitives& primitives, const Choice& choice, const std::int64_t* source_offsets,
         ItemIds ids, bool exact, CudaBatch& batch) {
  std::uint32_t* keys = batch.has_transpose ? batch.keys.data() : nullptr;
  std::uint32_t* entry_users = batch.entry_users.data();
  launch(queue, batch.users_,
         CutRows{choice, source_offsets, ids, batch.offsets.data(), batch.columns.data(), keys, entry_users});
  if (!batch.has_transpose) return;

  // The transpose: a stable sort by item, users of an item stay in ascending order.
  const std::int64_t room = batch.max_entries;
  const std::int64_t* entries = batch.offsets.data() + batch.users_;
  if (!exact) {
    launch(queue, blocks_for(room, MarkRest::threads),
           MarkRest{entries, room, batch.items, keys, entry_users});
  }
  primitives.sort_pairs(queue, keys, batch.sorted_keys.data(), entry_users, batch.item_users.data(), room,
                        std::bit_width(static_cast<std::uint64_t>(batch.items)));
  launch(queue, blocks_for(batch.items + 1, FindItems::threads),
         FindItems{batch.sorted_keys.data(), entries, batch.items, batch.item_begin.data()});
}

/// A batch that came from the host.
void cut(Queue& queue, Primitives& primitives, const Streamer::Cut& from, bool exact, CudaBatch& batch) {
  queue.copy(batch.offsets.data(), from.offsets, (from.users + 1) * 8);
  queue.copy(batch.user_numbers.data(), from.user_numbers, from.users * 4);
  cut(queue, primitives, {}, from.offsets, from.ids, exact, batch);
}

}  // namespace

std::unique_ptr<backend::BatchOrder> CudaBackend::make_batch_order() {
  return std::make_unique<CudaOrder>();
}

void CudaBackend::set_batch_order(const backend::UserRows& source, std::span<const std::int64_t> rows,
                                  std::span<const std::int64_t> begin, backend::BatchOrder& order) {
  const CudaRows& from = gpu(source);
  CudaOrder& to = gpu(order);
  generation_.require_free("the order of batches");
  auto plan = std::make_shared<Plan>();
  plan->rows.assign(rows.begin(), rows.end());
  if (!begin.empty()) plan->begin.assign(begin.begin(), begin.end());
  const auto outside = [&](std::int64_t row) { return row < 0 || row >= from.rows(); };
  if (plan->begin.front() < 0 || plan->begin.back() > static_cast<std::int64_t>(rows.size()) ||
      !std::is_sorted(plan->begin.begin(), plan->begin.end()) ||
      std::any_of(rows.begin(), rows.end(), outside)) {
    throw std::out_of_range("an order of batches names rows that are not there");
  }
  for (std::int64_t t = 0; t < plan->batches(); ++t) {
    plan->max_users = std::max(plan->max_users, static_cast<std::int64_t>(plan->batch(t).size()));
    plan->max_entries = std::max(plan->max_entries, from.entries_of(plan->batch(t)));
  }

  bool moved = false;
  if (plan->max_users > to.max_users || plan->max_entries > to.max_entries) {
    to.max_users = std::max(to.max_users, plan->max_users);
    const std::int64_t all = from.host_offsets.back();
    const std::int64_t with_room = std::min(plan->max_entries + plan->max_entries / 8 + 1024, all);
    to.max_entries = std::max(to.max_entries, std::max(plan->max_entries, with_room));
    moved = true;
  }
  if (from.resident()) {
    const auto up = [&](const std::vector<std::int64_t>& numbers, Upload<std::int64_t>& staging,
                        DeviceArray<std::int64_t>& on_device) {
      const auto n = static_cast<std::int64_t>(numbers.size());
      std::copy(numbers.begin(), numbers.end(), staging.room(n, check_));
      if (on_device.size() < n) {
        on_device = {};
        on_device = DeviceArray<std::int64_t>(device_, n, "the order of batches");
        moved = true;
      }
      staging.send(queue_, n, on_device.data());
    };
    up(plan->rows, to.rows_up, to.device_rows);
    up(plan->begin, to.begin_up, to.device_begin);
  }
  if (moved) ++generation_.value;
  to.plan = std::move(plan);
  if (!from.resident()) from.streamer().follow(to.plan, check_);
}

void CudaBackend::gather_step(const backend::UserRows& source, const backend::BatchOrder& order,
                              const backend::StepState& step, std::int64_t users, backend::Batch& batch) {
  const NvtxRange nvtx("input: batch");
  const CudaRows& from = gpu(source);
  const CudaOrder& by = gpu(order);
  CudaBatch& to = gpu(batch);
  const std::int64_t t = gpu(step).numbers.batch;
  if (t < 0 || t >= by.batches() || users != by.users(t)) {
    throw std::logic_error("the step's batch is not one of its order, or has another number of users");
  }
  to.reserve(by.max_users, by.max_entries, from.items(), true);
  set_size(to, users, by.max_entries, from.items(), true);
  if (!from.resident()) {
    generation_.require_free("a batch from the host");
    const Streamer::Cut there = from.streamer().take(by.plan, t, queue_, check_);
    cut(queue_, primitives_, there, false, to);
    from.streamer().read(queue_);
    return;
  }
  if (!generation_.recording) primitives_.reserve(std::max(by.max_users, by.max_entries));
  auto* counts = scratch_.get<std::int32_t>(Scratch::per_user, by.max_users, "the sizes of users' rows");
  const Choice choice{by.device_rows.data(), by.device_begin.data(), gpu(step).record.data()};
  launch(queue_, blocks_for(users, CountEntries::threads),
         CountEntries{choice, from.offsets(), from.first_user(), users, counts, to.user_numbers.data()});
  primitives_.running_sum(queue_, counts, users, to.offsets.data());
  cut(queue_, primitives_, choice, from.offsets(), from.ids(), false, to);
}

void CudaBackend::gather_batch(const backend::UserRows& source, std::span<const std::int64_t> rows,
                               bool with_transpose, backend::Batch& batch) {
  const NvtxRange nvtx("batch");
  const CudaRows& from = gpu(source);
  CudaBatch& to = gpu(batch);
  generation_.require_free("a batch of rows that the host names");
  const auto users = static_cast<std::int64_t>(rows.size());
  for (const std::int64_t row : rows) {
    if (row < 0 || row >= from.rows()) throw std::out_of_range("a batch of rows that are not there");
  }
  const std::int64_t entries = from.entries_of(rows);
  to.reserve(users, entries, from.items(), with_transpose);
  set_size(to, users, entries, from.items(), with_transpose);
  if (!from.resident()) {
    cut(queue_, primitives_, from.streamer().take(rows, queue_, check_), true, to);
    from.streamer().read(queue_);
    return;
  }
  std::copy(rows.begin(), rows.end(), to.picked.room(users, check_));
  auto* picked = scratch_.get<std::int64_t>(Scratch::per_entry, users, "the numbers of a batch's rows");
  to.picked.send(queue_, users, picked);
  auto* counts = scratch_.get<std::int32_t>(Scratch::per_user, users, "the sizes of users' rows");
  const Choice choice{.rows = picked};
  launch(queue_, blocks_for(users, CountEntries::threads),
         CountEntries{choice, from.offsets(), from.first_user(), users, counts, to.user_numbers.data()});
  primitives_.running_sum(queue_, counts, users, to.offsets.data());
  cut(queue_, primitives_, choice, from.offsets(), from.ids(), true, to);
}

}  // namespace vaecf::cuda
