#include "rows.hpp"

#include <vaecf/base/error.hpp>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "cuda_backend.hpp"

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

/// `fill(first, n, to)` writes numbers [first, first + n) into pinned memory, piece by piece, two at a time.
template <class T, class Fill>
DeviceArray<T> upload(Device& device, Queue& queue, std::int64_t size, Fill&& fill) {
  DeviceArray<T> made(device, size, "users' rows");
  Upload<T> pieces[2];
  for (std::int64_t first = 0, turn = 0; first < size; first += piece_entries, turn = 1 - turn) {
    const std::int64_t n = std::min(piece_entries, size - first);
    fill(first, n, pieces[turn].room(n));
    pieces[turn].send(queue, n, made.data() + first);
  }
  return made;
}

}  // namespace

std::int64_t CudaRows::bytes_needed(CsrView view, std::int64_t items) {
  return (view.rows() + 1) * static_cast<std::int64_t>(sizeof(std::int64_t)) +
         view.entries() * id_bytes(items);
}

CudaRows::CudaRows(Device& device, Queue& queue, CsrView view, std::int64_t first_user, std::int64_t items,
                   Place place, std::string description)
    : host_offsets(view.offsets.begin(), view.offsets.end()),
      view_(view),
      first_user_(first_user),
      items_(items),
      place_(place),
      description_(std::move(description)) {
  if (host_offsets.empty()) host_offsets.push_back(0);
  for (std::int64_t& offset : host_offsets) offset -= view.offsets.empty() ? 0 : view.offsets.front();
  if (place == Place::host) {
    streamer_ = std::make_unique<Streamer>(device, view, first_user, items);
    return;
  }
  const auto ids = [&](std::int64_t first, std::int64_t n, auto* to) {
    copy_ids(view.columns.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(n)), items, to);
  };
  if (id_bytes(items) == 2) {
    narrow_ = upload<std::uint16_t>(device, queue, view.entries(), ids);
  } else {
    wide_ = upload<std::uint32_t>(device, queue, view.entries(), ids);
  }
  device_offsets_ = upload<std::int64_t>(device, queue, static_cast<std::int64_t>(host_offsets.size()),
                                         [&](std::int64_t first, std::int64_t n, std::int64_t* to) {
                                           std::copy_n(host_offsets.begin() + first, n, to);
                                         });
}

ItemIds CudaRows::ids() const {
  return {narrow_.data(), wide_.data()};
}

std::int64_t CudaRows::entries_of(std::span<const std::int64_t> rows) const {
  std::int64_t entries = 0;
  for (const std::int64_t row : rows) entries += host_offsets[row + 1] - host_offsets[row];
  return entries;
}

std::unique_ptr<backend::UserRows> CudaBackend::hold_rows(CsrView rows, std::int64_t first_user,
                                                          std::int64_t items) {
  const std::int64_t needed = CudaRows::bytes_needed(rows, items);
  const std::int64_t free = device_.free_bytes();
  const std::int64_t reserved = device_.total_bytes() / reserved_share;
  std::string text = std::to_string(rows.rows()) + " users, " + count_text(rows.entries()) + " interactions ";
  auto place = CudaRows::Place::host;
  if (options_.resident == "off") {
    text += "streamed from the host, as backend.resident: off asks";
  } else if (options_.resident == "on" ? needed > free : needed > free - reserved) {
    const std::string why = bytes_text(needed) + " are needed and " + bytes_text(free) + " free";
    if (options_.resident == "on") {
      throw RunError(
          "the users' rows do not fit into the GPU's memory, where backend.resident: on wants them: " + why +
          "; backend.resident: auto or off copies them batch by batch instead");
    }
    text += "streamed from the host: " + why + " (" + bytes_text(reserved) +
            " stay so for weights, activations and logits)";
  } else {
    place = CudaRows::Place::device;
    text += "resident on the GPU: " + bytes_text(needed) + " in " + std::to_string(8 * id_bytes(items)) +
            "-bit ids, " + bytes_text(free - needed) + " free";
  }
  return std::make_unique<CudaRows>(device_, queue_, rows, first_user, items, place, std::move(text));
}

}  // namespace vaecf::cuda
