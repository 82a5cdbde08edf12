#include <vaecf/base/failure.hpp>

#include <stdexcept>

#include "device/cuda/alignment.hpp"
#include "device/cuda/device.hpp"

namespace vaecf::cuda {
namespace {

std::string size_text(std::int64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 1024.0 ? format("{:.1f} MiB", mib) : format("{:.1f} GiB", mib / 1024.0);
}

/// Throws InputError if an id is not below `items`: the device would access memory outside its tables.
void check_ids(std::span<const std::int32_t> ids, std::int64_t items) {
  const auto bad = std::ranges::find_if(ids, [&](auto item) { return item < 0 || item >= items; });
  if (bad == ids.end()) return;
  throw InputError(format(
      "users' rows contain item {}, but there are only {} items: the dataset is damaged; prepare it again",
      *bad, items));
}

/// Writes ids of `size` bytes each.
void write_ids(std::span<const std::int32_t> ids, std::int64_t size, std::byte* to) {
  if (size == 2) {
    std::ranges::copy(ids, reinterpret_cast<std::uint16_t*>(to));
  } else {
    std::ranges::copy(ids, reinterpret_cast<std::uint32_t*>(to));
  }
}

}  // namespace

void AllocationEpoch::require_not_capturing(const char* what) const {
  if (capturing) {
    throw std::logic_error(
        format("{}: memory cannot grow during a capture; run the operation once before", what));
  }
}

void* Scratch::bytes(Slot slot, std::int64_t bytes, const char* what) {
  DeviceArray<std::byte>& memory = memory_[slot];
  grow(gpu_, allocation_epoch_, bytes, what, memory);
  return memory.data();
}

Matrix make_matrix(Gpu& gpu, std::int64_t max_rows, std::int64_t columns, DType dtype) {
  constexpr const char* what = "activations";
  const std::int64_t stride = round_up(columns, row_alignment);
  const std::int64_t size = max_rows * stride;
  return {
      columns, stride, Buffer(DeviceArray<float>(gpu, size, what)),
      device::Array<std::uint16_t>(DeviceArray<std::uint16_t>(gpu, dtype == DType::fp32 ? 0 : size, what))};
}

void Batch::reserve(std::int64_t users, std::int64_t entries, std::int64_t item_count, bool with_transpose,
                    bool with_values) {
  constexpr const char* what = "the batch";
  grow(gpu_, allocation_epoch_, users, what, user_numbers);
  grow(gpu_, allocation_epoch_, users, what, totals);
  grow(gpu_, allocation_epoch_, users + 1, what, offsets);
  grow(gpu_, allocation_epoch_, entries, what, columns);
  if (with_values) grow(gpu_, allocation_epoch_, entries, what, values);
  if (!with_transpose) return;
  grow(gpu_, allocation_epoch_, item_count + 1, what, item_begin);
  for (DeviceArray<std::uint32_t>* array : {&item_users, &keys, &sorted_keys, &entry_users}) {
    grow(gpu_, allocation_epoch_, entries, what, *array);
  }
  if (!with_values) return;
  grow(gpu_, allocation_epoch_, entries, what, item_values);
  grow(gpu_, allocation_epoch_, entries, what, entry_indices);
  grow(gpu_, allocation_epoch_, entries, what, sorted_indices);
}

UserRows::UserRows(Gpu& gpu, Stream& stream, ItemSliceView sliced, std::int64_t first,
                   std::int64_t item_count, ModelParallelGroup& ranks, bool on_device,
                   std::string description)
    : host_offsets(sliced.rows.offsets.begin(), sliced.rows.offsets.end()),
      first_user(first),
      items(ranks.item_slice(item_count).count()),
      all_items(item_count),
      model_parallel(ranks),
      description_(std::move(description)) {
  const CsrView view = sliced.rows;
  if (host_offsets.empty()) host_offsets.push_back(0);
  for (std::int64_t& offset : host_offsets) offset -= view.offsets.empty() ? 0 : view.offsets.front();
  offsets_ = {gpu, static_cast<std::int64_t>(host_offsets.size()), "users' rows"};
  stream.copy_h2d(offsets_.data(), host_offsets.data(), offsets_.bytes());

  const std::vector<RowTotals> computed = sliced.totals.empty() ? totals_of(view) : std::vector<RowTotals>();
  totals_ = {gpu, view.rows(), "users' rows"};
  stream.copy_h2d(totals_.data(), sliced.totals.empty() ? computed.data() : sliced.totals.data(),
                  totals_.bytes());

  const auto ids = view.columns.first(static_cast<std::size_t>(view.entries()));
  check_ids(ids, items);
  const std::int64_t size = id_bytes(items);
  if (!on_device) {
    host_ids_ = PinnedArray<std::byte>(view.entries() * size);
    write_ids(ids, size, host_ids_.data());
    host_values_ = PinnedArray<float>(std::ssize(view.values));
    std::ranges::copy(view.values, host_values_.data());
    return;
  }
  device_values_ = {gpu, std::ssize(view.values), "users' rows"};
  stream.copy_h2d(device_values_.data(), view.values.data(), device_values_.bytes());
  device_ids_ = {gpu, view.entries() * size, "users' rows"};
  constexpr std::size_t piece_entries = std::size_t{1} << 20;
  std::vector<std::byte> piece(std::min(piece_entries, ids.size()) * static_cast<std::size_t>(size));
  for (std::size_t begin = 0; begin < ids.size(); begin += piece_entries) {
    const auto part = ids.subspan(begin, std::min(piece_entries, ids.size() - begin));
    write_ids(part, size, piece.data());
    stream.copy_h2d(device_ids_.data() + static_cast<std::int64_t>(begin) * size, piece.data(),
                    std::ssize(part) * size);
  }
}

std::int64_t UserRows::entries_of(std::span<const std::int64_t> rows) const {
  std::int64_t entries = 0;
  for (const std::int64_t row : rows) entries += host_offsets[row + 1] - host_offsets[row];
  return entries;
}

std::unique_ptr<device::UserRows> Device::make_user_rows(ItemSliceView sliced, std::int64_t first_user,
                                                         std::int64_t items,
                                                         ModelParallelGroup& model_parallel) {
  const CsrView rows = sliced.rows;
  const std::int64_t id_size = id_bytes(model_parallel.item_slice(items).count());
  const std::int64_t needed = (rows.rows() + 1) * 8 +
                              rows.rows() * static_cast<std::int64_t>(sizeof(RowTotals)) +
                              rows.entries() * id_size + std::ssize(rows.values) * 4;
  const std::int64_t free = gpu_.free_bytes();
  const Toggle resident = options_.resident;
  // Unless set to `on`, a quarter of the memory is kept free for weights, moments, activations and logits.
  const bool fits = needed <= free - (resident == Toggle::on ? 0 : gpu_.total_bytes() / 4);
  const std::string sizes = format("{} are needed and {} free", size_text(needed), size_text(free));
  if (resident == Toggle::on && !fits) {
    throw CausedError(FailureCode::memory,
                      "backend.resident: true: the users' rows do not fit into the GPU's memory: " + sizes +
                          "; set it to auto or false, so that the GPU reads them from host memory");
  }
  const bool on_device = fits && resident != Toggle::off;
  const std::string text =
      format("{} users, {} interactions in {}-bit ids, {}{}", rows.rows(), rows.entries(), 8 * id_size,
             on_device ? "resident on the GPU: " : "read from the host: ",
             resident == Toggle::off ? "backend.resident is false" : sizes);
  return std::make_unique<UserRows>(gpu_, stream_, sliced, first_user, items, model_parallel, on_device,
                                    text);
}

}  // namespace vaecf::cuda
