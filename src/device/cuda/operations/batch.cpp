#include <bit>
#include <stdexcept>
#include <utility>
#include <vector>

#include "device/cuda/device.hpp"
#include "device/cuda/operations/vec8.hpp"
#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {
namespace {

constexpr const char* schedule_name = "the order of batches";
constexpr std::int64_t nothing[] = {0};

/// Selects the rows of a source that form the batch, user u is row(u), and has their place in it. Row -1 has
/// no entries and pads the batch.
struct RowSelection {
  const std::int64_t* rows = nullptr;
  const std::int64_t* entries = nullptr;  // offsets of each batch, one more than its users, batch after batch
  const std::int64_t* begin = nullptr;    // start of each batch in `rows`; null: there is one
  const DeviceStepState* state = nullptr;  // selects the batch if `begin` is set

  VAECF_HD std::int64_t row(std::int64_t u) const {
    return rows[(begin != nullptr ? begin[state->params.batch] : 0) + u];
  }
  /// Returns the number of entries of the users before u, who is in the batch or the end.
  VAECF_HD std::int64_t offset(std::int64_t u) const {
    return entries[(begin != nullptr ? begin[state->params.batch] + state->params.batch : 0) + u];
  }
};

/// Returns the offsets of each batch of `rows`: [begin[t], begin[t + 1]) of batch t.
std::vector<std::int64_t> offsets_of(const UserRows& source, std::span<const std::int64_t> rows,
                                     std::span<const std::int64_t> begin) {
  const auto entries = [&](std::int64_t row) {
    return row < 0 ? 0 : source.host_offsets[row + 1] - source.host_offsets[row];
  };
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(begin.front()));  // of no batch
  offsets.reserve(rows.size() + begin.size());
  for (std::size_t t = 0; t + 1 < begin.size(); ++t) {
    offsets.push_back(0);
    for (std::int64_t k = begin[t]; k < begin[t + 1]; ++k)
      offsets.push_back(offsets.back() + entries(rows[k]));
  }
  return offsets;
}

/// Copies the rows of the selected users to the batch, one user of 5 to a few thousand items per block. The
/// blocks after the last user write the end of the offsets and pad `keys`: keys after the last entry sort
/// after all items.
struct GatherRows {
  static constexpr int threads = 64;
  RowSelection selection;
  const std::int64_t* source_offsets;
  const RowTotals* source_totals;
  ItemIds ids;
  std::int64_t first_user;
  std::int64_t* offsets;        // offsets of the batch, (users + 1)
  std::uint32_t* user_numbers;  // (users)
  RowTotals* totals;            // (users)
  std::int32_t* columns;
  std::uint32_t* keys;  // like `entry_users`; null: no transpose needed
  std::uint32_t* entry_users;
  std::int64_t users;
  std::int64_t capacity;
  std::int64_t items;
  static constexpr std::int64_t keys_per_block = 1024;

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t user) const {
    if (user >= users) return end_batch(thread_group, user - users);
    const std::int64_t row = selection.row(user);
    const std::int64_t from = row < 0 ? 0 : source_offsets[row];
    const std::int64_t to = selection.offset(user);
    thread_group.each(1, [&](std::int64_t) {
      offsets[user] = to;
      user_numbers[user] = static_cast<std::uint32_t>(first_user + row);
      totals[user] = row < 0 ? RowTotals() : source_totals[row];
    });
    thread_group.each(selection.offset(user + 1) - to, [&](std::int64_t k) {
      const std::int32_t item = ids[from + k];
      columns[to + k] = item;
      if (keys == nullptr) return;
      keys[to + k] = static_cast<std::uint32_t>(item);
      entry_users[to + k] = static_cast<std::uint32_t>(user);
    });
  }

  template <class ThreadGroup>
  VAECF_HD void end_batch(ThreadGroup& thread_group, std::int64_t piece) const {
    const std::int64_t entries = selection.offset(users);
    if (piece == 0) thread_group.each(1, [&](std::int64_t) { offsets[users] = entries; });
    if (keys == nullptr) return;
    const std::int64_t first = piece * keys_per_block;
    const std::int64_t begin = first > entries ? first : entries;
    const std::int64_t end = first + keys_per_block < capacity ? first + keys_per_block : capacity;
    thread_group.each(end - begin, [&](std::int64_t k) {
      keys[begin + k] = static_cast<std::uint32_t>(items);
      entry_users[begin + k] = 0;
    });
  }
};

/// Copies the values of the selected users' rows to the batch, one user per block, and writes the index of
/// each entry.
struct GatherValues {
  static constexpr int threads = 64;
  RowSelection selection;
  const std::int64_t* source_offsets;
  const float* source_values;
  const std::int64_t* offsets;  // offsets of the batch, (users + 1)
  float* values;
  std::uint32_t* entry_indices;  // null: no transpose needed

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t user) const {
    const std::int64_t row = selection.row(user);
    const std::int64_t from = row < 0 ? 0 : source_offsets[row];
    const std::int64_t to = offsets[user];
    thread_group.each(offsets[user + 1] - to, [&](std::int64_t k) {
      values[to + k] = source_values[from + k];
      if (entry_indices != nullptr) entry_indices[to + k] = static_cast<std::uint32_t>(to + k);
    });
  }
};

/// Takes the user and the value of each entry of the transpose, given the sorted indices of the entries.
struct TakeEntries {
  const std::uint32_t* sorted_indices;
  const std::int64_t* entries;
  const std::uint32_t* entry_users;
  const float* values;
  std::uint32_t* item_users;
  float* item_values;

  VAECF_HD void operator()(std::int64_t k) const {
    if (k >= *entries) return;
    const std::uint32_t entry = sorted_indices[k];
    item_users[k] = entry_users[entry];
    item_values[k] = values[entry];
  }
};

/// Computes item_begin[i] = number of entries of items before i.
struct FindItemOffsets {
  const std::uint32_t* sorted_keys;
  const std::int64_t* entries;
  std::int64_t* item_begin;  // (items + 1)

  VAECF_HD void operator()(std::int64_t item) const {
    item_begin[item] = partition_point(
        0, *entries, [&](std::int64_t k) { return sorted_keys[k] < static_cast<std::uint64_t>(item); });
  }
};

/// Gathers the rows of `from` that `selection` selects into `batch`, which has capacity for `capacity`
/// entries.
void gather(Stream& stream, const UserRows& from, const RowSelection& selection, std::int64_t users,
            std::int64_t capacity, bool transpose, Batch& batch) {
  batch.users_ = users;
  batch.model_parallel_ = &from.model_parallel;
  batch.items = from.items;
  batch.all_items = from.all_items;
  batch.has_values = from.values() != nullptr;
  batch.max_entries = capacity;
  batch.has_transpose = transpose;
  const std::int64_t pieces = transpose ? blocks_for(capacity, GatherRows::keys_per_block) : 0;
  launch(stream, users + std::max<std::int64_t>(pieces, 1),
         GatherRows{.selection = selection,
                    .source_offsets = from.offsets(),
                    .source_totals = from.totals(),
                    .ids = from.ids(),
                    .first_user = from.first_user,
                    .offsets = batch.offsets.data(),
                    .user_numbers = batch.user_numbers.data(),
                    .totals = batch.totals.data(),
                    .columns = batch.columns.data(),
                    .keys = transpose ? batch.keys.data() : nullptr,
                    .entry_users = batch.entry_users.data(),
                    .users = users,
                    .capacity = capacity,
                    .items = batch.items});
  if (from.values() == nullptr) return;
  launch(stream, users,
         GatherValues{selection, from.offsets(), from.values(), batch.offsets.data(), batch.values.data(),
                      transpose ? batch.entry_indices.data() : nullptr});
}

/// Computes the transpose by a stable sort: users of an item stay in ascending order.
void transpose(Stream& stream, Primitives& primitives, Batch& batch) {
  const auto& entries = batch.has_values ? batch.entry_indices : batch.entry_users;
  auto& sorted = batch.has_values ? batch.sorted_indices : batch.item_users;
  primitives.sort_pairs(
      stream, batch.keys.data(), batch.sorted_keys.data(), entries.data(), sorted.data(), batch.max_entries,
      std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(batch.items)))));
  if (batch.has_values)
    launch_elements(stream, batch.max_entries,
                    TakeEntries{batch.sorted_indices.data(), batch.offsets.data() + batch.users(),
                                batch.entry_users.data(), batch.values.data(), batch.item_users.data(),
                                batch.item_values.data()});
  launch_elements(stream, batch.items + 1,
                  FindItemOffsets{batch.sorted_keys.data(), batch.offsets.data() + batch.users(),
                                  batch.item_begin.data()});
}

}  // namespace

void Device::upload_batch_schedule(const device::UserRows& source, std::span<const std::int64_t> rows,
                                   std::span<const std::int64_t> begin, device::BatchSchedule& schedule) {
  if (begin.empty()) begin = nothing;
  const auto outside = [&](std::int64_t row) { return row < -1 || row >= source.rows(); };
  if (begin.front() < 0 || begin.back() > static_cast<std::int64_t>(rows.size()) ||
      !std::is_sorted(begin.begin(), begin.end()) || std::any_of(rows.begin(), rows.end(), outside)) {
    throw std::out_of_range("upload_batch_schedule: a row index is out of range");
  }
  UploadedOrder& next = own<BatchSchedule>(schedule).next;
  next.begin.assign(begin.begin(), begin.end());
  next.max_users = 0;
  next.max_entries = 0;
  const std::vector<std::int64_t> offsets = offsets_of(own<UserRows>(source), rows, begin);
  for (std::size_t t = 0; t + 1 < begin.size(); ++t) {
    next.max_users = std::max(next.max_users, begin[t + 1] - begin[t]);
    next.max_entries = std::max(next.max_entries, offsets[begin[t + 1] + static_cast<std::int64_t>(t)]);
  }
  next.rows = static_cast<std::int64_t>(rows.size());
  next.offsets = std::ssize(offsets);
  gpu_.make_current();
  next.stream.wait_event(next.started.native());
  const auto upload = [&](std::span<const std::int64_t> numbers, DeviceArray<std::int64_t>& on_device) {
    grow(gpu_, allocation_epoch_, std::ssize(numbers), schedule_name, on_device);
    next.stream.copy_h2d(on_device.data(), numbers.data(), static_cast<std::int64_t>(numbers.size_bytes()));
  };
  upload(rows, next.device_rows);
  upload(begin, next.device_begin);
  upload(offsets, next.device_offsets);
  next.stream.synchronize();
}

void Device::start_batch_schedule(const device::UserRows& source, device::BatchSchedule& schedule_base) {
  auto& schedule = own<BatchSchedule>(schedule_base);
  allocation_epoch_.require_not_capturing(schedule_name);
  UploadedOrder& next = schedule.next;
  if (next.begin.empty()) return;
  schedule.begin = std::exchange(next.begin, {});
  if (next.max_users > schedule.max_users || next.max_entries > schedule.max_entries) {
    ++allocation_epoch_.value;
  }
  schedule.max_users = std::max(schedule.max_users, next.max_users);
  if (next.max_entries > schedule.max_entries) {
    schedule.max_entries = std::max(next.max_entries, std::min(next.max_entries + next.max_entries / 8 + 1024,
                                                               own<UserRows>(source).host_offsets.back()));
  }
  // A copy, since graphs contain the addresses.
  const auto copy = [&](const DeviceArray<std::int64_t>& from, std::int64_t size,
                        DeviceArray<std::int64_t>& to) {
    grow(gpu_, allocation_epoch_, size, schedule_name, to);
    stream_.copy(to.data(), from.data(), size * 8);
  };
  copy(next.device_rows, next.rows, schedule.device_rows);
  copy(next.device_begin, std::ssize(schedule.begin), schedule.device_begin);
  copy(next.device_offsets, next.offsets, schedule.device_offsets);
  stream_.record(next.started);
}

void Device::gather_scheduled_batch(const device::UserRows& source_base,
                                    const device::BatchSchedule& schedule_base,
                                    const device::StepState& step_base, std::int64_t users,
                                    device::Batch& batch_base) {
  const auto& source = own<UserRows>(source_base);
  const auto& schedule = own<BatchSchedule>(schedule_base);
  const auto& step = own<StepState>(step_base);
  auto& batch = own<Batch>(batch_base);
  const NvtxRange nvtx("input: batch");
  const std::int64_t t = step.params.batch;
  if (t < 0 || t >= schedule.batches() || users != schedule.users(t)) {
    throw std::logic_error(
        "gather_scheduled_batch: the step's batch is not in the schedule, or `users` is not its size");
  }
  batch.reserve(schedule.max_users, schedule.max_entries, source.items, true, source.values() != nullptr);
  const RowSelection selection{schedule.device_rows.data(), schedule.device_offsets.data(),
                               schedule.device_begin.data(), step.device_state.data()};
  if (sorting_ == &batch) join(sort_);  // it reads the keys that are overwritten here
  gather(stream_, source, selection, users, schedule.max_entries, true, batch);
  sorting_ = &batch;
  // Only the gradient of a table reads the transpose, so the sort may run during the forward pass.
  run_beside(sort_, [&] { transpose(side_stream_, primitives_, batch); });
}

void Device::gather_batch(const device::UserRows& source_base, std::span<const std::int64_t> rows,
                          bool with_transpose, device::Batch& batch_base) {
  const auto& source = own<UserRows>(source_base);
  auto& batch = own<Batch>(batch_base);
  const NvtxRange nvtx("batch");
  allocation_epoch_.require_not_capturing("gather_batch");
  const auto users = static_cast<std::int64_t>(rows.size());
  for (const std::int64_t row : rows) {
    if (row < 0 || row >= source.rows()) throw std::out_of_range("gather_batch: a row index is out of range");
  }
  const std::int64_t all[] = {0, users};
  const std::vector<std::int64_t> offsets = offsets_of(source, rows, all);
  const std::int64_t entries = offsets.back();
  batch.reserve(users, entries, source.items, with_transpose, source.values() != nullptr);
  auto* picked = scratch_.get<std::int64_t>(Scratch::per_entry, 2 * users + 1, "the row indices of a batch");
  stream_.copy_h2d(picked, rows.data(), users * 8);
  stream_.copy_h2d(picked + users, offsets.data(), std::ssize(offsets) * 8);
  join(sort_);  // it may read the keys that are overwritten here
  gather(stream_, source, {.rows = picked, .entries = picked + users}, users, entries, with_transpose, batch);
  if (with_transpose) transpose(stream_, primitives_, batch);
}

}  // namespace vaecf::cuda
