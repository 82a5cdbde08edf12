#include <vaecf/backend/cuda/device.hpp>
#include <vaecf/backend/cuda/rows.hpp>
#include <vaecf/base/error.hpp>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace vaecf::cuda {
namespace {

// Of the device's memory: kept free of users' rows, for weights, moments, activations and logits.
constexpr std::int64_t reserved_share = 4;
constexpr std::int64_t piece_entries = std::int64_t{1} << 20;

std::string with_unit(double value, const char* unit) {
  char text[64];
  std::snprintf(text, sizeof text, value < 10.0 ? "%.1f %s" : "%.0f %s", value, unit);
  return text;
}

std::string bytes_text(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= std::int64_t{1} << 30) return with_unit(value / (1 << 30), "GiB");
  if (bytes >= std::int64_t{1} << 20) return with_unit(value / (1 << 20), "MiB");
  return with_unit(value / (1 << 10), "KiB");
}

std::string count_text(std::int64_t count) {
  if (count >= 1000000) return with_unit(static_cast<double>(count) * 1e-6, "M");
  return std::to_string(count);
}

/// Writes the ids of `from` to `to`, as wide as `Id`. InputError for one that is no item.
template <class Id>
void copy_ids(std::span<const std::int32_t> from, std::int64_t items, Id* to) {
  // The device would read and write outside its tables.
  std::uint32_t outside = 0;
  for (std::size_t k = 0; k < from.size(); ++k) {
    outside |=
        static_cast<std::uint32_t>(static_cast<std::uint32_t>(from[k]) >= static_cast<std::uint64_t>(items));
    to[k] = static_cast<Id>(from[k]);
  }
  if (outside == 0) return;
  const auto bad =
      std::find_if(from.begin(), from.end(), [&](auto item) { return item < 0 || item >= items; });
  throw InputError("users' rows hold item " + std::to_string(*bad) + ", but there are " +
                   std::to_string(items) + " items: the dataset is damaged; prepare it anew");
}

void copy_ids(std::span<const std::int32_t> from, std::int64_t items, std::byte* to) {
  if (id_bytes(items) == 2) {
    copy_ids(from, items, reinterpret_cast<std::uint16_t*>(to));
  } else {
    copy_ids(from, items, reinterpret_cast<std::uint32_t*>(to));
  }
}

}  // namespace

UserRows::UserRows(Gpu& gpu, Queue& queue, CsrView view, std::int64_t first_user, std::int64_t items,
                   Place place, std::string description)
    : host_offsets(view.offsets.begin(), view.offsets.end()),
      first_user_(first_user),
      items_(items),
      description_(std::move(description)) {
  if (host_offsets.empty()) host_offsets.push_back(0);
  for (std::int64_t& offset : host_offsets) offset -= view.offsets.empty() ? 0 : view.offsets.front();
  offsets_ = {gpu, static_cast<std::int64_t>(host_offsets.size()), "users' rows"};
  queue.copy_in(offsets_.data(), host_offsets.data(), offsets_.bytes());

  const std::int64_t size = id_bytes(items);
  if (place == Place::host) {
    host_ids_ = PinnedArray<std::byte>(view.entries() * size);
    copy_ids(view.columns.first(static_cast<std::size_t>(view.entries())), items, host_ids_.data());
    return;
  }
  device_ids_ = {gpu, view.entries() * size, "users' rows"};
  std::vector<std::byte> piece;
  for (std::int64_t first = 0; first < view.entries(); first += piece_entries) {
    const std::int64_t n = std::min(piece_entries, view.entries() - first);
    piece.resize(static_cast<std::size_t>(n * size));
    copy_ids(view.columns.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(n)), items,
             piece.data());
    queue.copy_in(device_ids_.data() + first * size, piece.data(), n * size);
  }
}

std::int64_t UserRows::entries_of(std::span<const std::int64_t> rows) const {
  std::int64_t entries = 0;
  for (const std::int64_t row : rows) entries += host_offsets[row + 1] - host_offsets[row];
  return entries;
}

std::unique_ptr<UserRows> Device::hold_rows(CsrView rows, std::int64_t first_user, std::int64_t items) {
  const std::int64_t needed = (rows.rows() + 1) * 8 + rows.entries() * id_bytes(items);
  const std::int64_t free = gpu_.free_bytes();
  const std::int64_t reserved = gpu_.total_bytes() / reserved_share;
  const Toggle resident = options_.resident;
  const bool fits = needed <= (resident == Toggle::on ? free : free - reserved);
  const std::string why = bytes_text(needed) + " are needed and " + bytes_text(free) + " free";
  if (resident == Toggle::on && !fits) {
    throw RunError("backend.resident: on: the users' rows do not fit into the GPU's memory: " + why +
                   "; set it to auto or off, so that the GPU reads them in the host's memory");
  }
  const bool on_device = fits && resident != Toggle::off;
  const std::string text = std::to_string(rows.rows()) + " users, " + count_text(rows.entries()) +
                           " interactions " + (on_device ? "resident on the GPU: " : "read from the host: ");
  const std::string reason = on_device ? bytes_text(needed) + " in " + std::to_string(8 * id_bytes(items)) +
                                             "-bit ids, " + bytes_text(free - needed) + " free"
                             : resident == Toggle::off ? "backend.resident is off"
                                                       : why + " (" + bytes_text(reserved) +
                                                             " stay so for weights, activations and logits)";
  return std::make_unique<UserRows>(gpu_, queue_, rows, first_user, items,
                                    on_device ? UserRows::Place::device : UserRows::Place::host,
                                    text + reason);
}

}  // namespace vaecf::cuda
