#include <vaecf/device/cuda/device.hpp>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <vector>

#include "device/cuda/kernels/vec8.hpp"
#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {
namespace {

constexpr const char* windows_name = "windows of batches";

struct CountWindowRows {
  static constexpr int threads = 128;
  static constexpr int scratch_bytes = 0;
  const std::int64_t* rows;  // rows of the window's users
  const std::int64_t* source_offsets;
  const std::int32_t* source_sizes;  // null: not copied
  std::int64_t first_user;
  std::int64_t users;
  std::int32_t* counts;
  std::uint32_t* user_numbers;
  std::int32_t* sizes;

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte*) const {
    for_each_in_grid<threads>(group, block, users, [&](std::int64_t u) {
      counts[u] = static_cast<std::int32_t>(source_offsets[rows[u] + 1] - source_offsets[rows[u]]);
      user_numbers[u] = static_cast<std::uint32_t>(first_user + rows[u]);
      if (source_sizes != nullptr) sizes[u] = source_sizes[rows[u]];
    });
  }
};

/// Gathers the rows of a window. Block t * max_users + u gathers user u of its batch t.
struct GatherWindowRows {
  static constexpr int threads = 64;
  static constexpr int scratch_bytes = 0;
  const std::int64_t* rows;  // rows of the window's users
  const WindowPosition* positions;
  std::int64_t max_users;
  const std::int64_t* source_offsets;
  ItemIds ids;
  const std::int64_t* offsets;  // offsets of the window
  std::int32_t* columns;
  std::uint32_t* keys;
  std::uint32_t* entry_users;

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte*) const {
    const WindowPosition position = positions[block / max_users];
    const std::int64_t user = block % max_users;
    if (user >= position.users) return;
    const std::int64_t from = source_offsets[rows[position.user_base + user]];
    const std::int64_t to = offsets[position.user_base + user];
    group.each(offsets[position.user_base + user + 1] - to, [&](std::int64_t k) {
      const std::int32_t item = ids[from + k];
      columns[to + k] = item;
      keys[to + k] = static_cast<std::uint32_t>(position.item_base + item);
      entry_users[to + k] = static_cast<std::uint32_t>(user);
    });
  }
};

/// Computes item_begin[key] = number of entries with smaller keys. Each entry writes the places after its
/// predecessor's key, up to its own.
struct WriteItemOffsets {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = 0;
  const std::uint32_t* sorted_keys;
  std::int64_t entries;
  std::int64_t places;       // keys are below this
  std::int64_t* item_begin;  // (places + 1)

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte*) const {
    for_each_in_grid<threads>(group, block, entries + 1, [&](std::int64_t k) {
      const std::int64_t before = k > 0 ? static_cast<std::int64_t>(sorted_keys[k - 1]) : -1;
      const std::int64_t last = k < entries ? static_cast<std::int64_t>(sorted_keys[k]) : places;
      for (std::int64_t key = before + 1; key <= last; ++key) item_begin[key] = k;
    });
  }
};

/// The arrays of a batch, or of all batches of a window.
struct BatchArrays {
  std::uint32_t* user_numbers;
  std::int32_t* sizes;  // null: not copied
  std::int64_t* offsets;
  std::int32_t* columns;
  std::int64_t* item_begin;
  std::uint32_t* item_users;

  explicit BatchArrays(Batch& batch)
      : user_numbers(batch.user_numbers.data()),
        sizes(batch.has_sizes ? batch.sizes.data() : nullptr),
        offsets(batch.offsets.data()),
        columns(batch.columns.data()),
        item_begin(batch.item_begin.data()),
        item_users(batch.item_users.data()) {}
};

/// Copies the step's batch out of its window. A batch of its own keeps all other kernels as they are, without
/// an indirect load in each.
struct CopyBatch {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = 0;
  const DeviceStepState* state;
  const WindowPosition* positions;
  BatchArrays window;
  BatchArrays batch;
  std::int64_t users;
  std::int64_t items;
  std::int64_t size;  // at least users + 1, items + 1 and the number of entries

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte*) const {
    const WindowPosition from = positions[state->params.batch];
    for_each_in_grid<threads>(group, block, size, [&](std::int64_t i) {
      if (i < from.entries) {
        batch.columns[i] = window.columns[from.entry_base + i];
        batch.item_users[i] = window.item_users[from.entry_base + i];
      }
      if (i <= items) batch.item_begin[i] = window.item_begin[from.item_base + i] - from.entry_base;
      if (i <= users) batch.offsets[i] = window.offsets[from.user_base + i] - from.entry_base;
      if (i >= users) return;
      batch.user_numbers[i] = window.user_numbers[from.user_base + i];
      if (batch.sizes != nullptr) batch.sizes[i] = window.sizes[from.user_base + i];
    });
  }
};

}  // namespace

void Device::plan_windows(const UserRows& source, BatchSchedule& schedule) {
  BatchWindows& windows = schedule.windows;
  windows.begin.clear();
  windows.current = -1;
  if (windows.max_entries == 0 || !source.resident()) return;
  windows.begin = {0};
  std::int64_t users = 0;
  std::int64_t entries = 0;
  std::int64_t places = 0;
  std::vector<WindowPosition> positions;
  for (std::int64_t t = 0; t < schedule.batches(); ++t) {
    const auto position = [&](std::int64_t first) {
      return WindowPosition{schedule.begin[t] - schedule.begin[first],
                            schedule.entry_begin[t] - schedule.entry_begin[first],
                            (t - first) * source.items(), schedule.users(t),
                            schedule.entry_begin[t + 1] - schedule.entry_begin[t]};
    };
    WindowPosition mine = position(windows.begin.back());
    if (t > windows.begin.back() && (mine.entry_base + mine.entries > windows.max_entries ||
                                     mine.item_base + source.items() > windows.max_item_offsets)) {
      windows.begin.push_back(t);
      mine = position(t);
    }
    users = std::max(users, mine.user_base + mine.users);
    entries = std::max(entries, mine.entry_base + mine.entries);
    places = std::max(places, mine.item_base + source.items());
    positions.push_back(mine);
  }
  windows.begin.push_back(schedule.batches());

  // A margin, so that windows of later epochs fit the captured graphs. No graph becomes invalid in an epoch.
  const auto capacity = [](std::int64_t needed, std::int64_t has, std::int64_t most) {
    return needed <= has ? needed : std::max(needed, std::min(needed + needed / 8 + 1024, most));
  };
  if (windows.batch == nullptr) windows.batch = make_batch();
  Batch& batch = *windows.batch;
  users = capacity(users, batch.user_numbers.size(), source.rows());
  batch.reserve(users, capacity(entries, batch.columns.size(), source.host_offsets.back()),
                capacity(places, batch.item_begin.size() - 1, schedule.batches() * source.items()), true);
  scratch_.get<std::int32_t>(Scratch::per_user, users, windows_name);
  grow(gpu_, allocation_epoch_, schedule.batches(), windows_name, windows.positions);
  stream_.copy_h2d(windows.positions.data(), positions.data(),
                   schedule.batches() * static_cast<std::int64_t>(sizeof(WindowPosition)));
}

void Device::prepare_batch(const UserRows& source, BatchSchedule& schedule, std::int64_t batch) {
  if (stream_.capturing()) throw std::logic_error("prepare_batch: must not be captured");
  BatchWindows& windows = schedule.windows;
  if (windows.begin.empty() || batch < 0 || batch >= schedule.batches()) return;
  const std::int64_t window = std::ranges::upper_bound(windows.begin, batch) - windows.begin.begin() - 1;
  if (window != windows.current) gather_window(source, schedule, window);
}

void Device::gather_window(const UserRows& source, BatchSchedule& schedule, std::int64_t window) {
  const NvtxRange nvtx("input: window of batches");
  BatchWindows& windows = schedule.windows;
  windows.current = window;
  const std::int64_t first = windows.begin[window];
  const std::int64_t end = windows.begin[window + 1];
  const std::int64_t users = schedule.begin[end] - schedule.begin[first];
  const std::int64_t entries = schedule.entry_begin[end] - schedule.entry_begin[first];
  const std::int64_t places = (end - first) * source.items();
  Batch& batch = *windows.batch;
  const std::int64_t* rows = schedule.device_rows.data() + schedule.begin[first];
  auto* counts = scratch_.get<std::int32_t>(Scratch::per_user, users, windows_name);
  batch.has_sizes = source.sizes() != nullptr;
  launch(stream_, blocks_for(users, CountWindowRows::threads),
         CountWindowRows{rows, source.offsets(), source.sizes(), source.first_user(), users, counts,
                         batch.user_numbers.data(), batch.sizes.data()});
  primitives_.exclusive_scan(stream_, counts, users, batch.offsets.data());
  launch(stream_, (end - first) * schedule.max_users,
         GatherWindowRows{rows, windows.positions.data() + first, schedule.max_users, source.offsets(),
                          source.ids(), batch.offsets.data(), batch.columns.data(), batch.keys.data(),
                          batch.entry_users.data()});
  // By batch, then by item; stable, so users of an item stay in ascending order.
  primitives_.sort_pairs(stream_, batch.keys.data(), batch.sorted_keys.data(), batch.entry_users.data(),
                         batch.item_users.data(), entries,
                         std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(places)))));
  launch(stream_, blocks_for(entries + 1, WriteItemOffsets::threads),
         WriteItemOffsets{batch.sorted_keys.data(), entries, places, batch.item_begin.data()});
}

void Device::copy_from_window(const UserRows& source, const BatchSchedule& schedule, const StepState& step,
                              std::int64_t users, Batch& batch) {
  const BatchWindows& windows = schedule.windows;
  const std::int64_t t = step.params.batch;
  if (windows.current < 0 || t < windows.begin[windows.current] || t >= windows.begin[windows.current + 1])
    throw std::logic_error("gather_scheduled_batch: the step's batch was not prepared");
  batch.users_ = users;
  batch.slices_ = &source.slices();
  batch.items = source.items();
  batch.all_items = source.all_items();
  batch.has_sizes = source.sizes() != nullptr;
  batch.max_entries = schedule.max_entries;
  batch.has_transpose = true;
  const std::int64_t size = std::max({schedule.max_entries, users + 1, source.items() + 1});
  launch(stream_, blocks_for(size, CopyBatch::threads),
         CopyBatch{step.device_state.data(), windows.positions.data(), BatchArrays(*windows.batch),
                   BatchArrays(batch), users, source.items(), size});
}

}  // namespace vaecf::cuda
