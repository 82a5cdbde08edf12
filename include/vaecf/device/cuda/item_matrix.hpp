#pragma once

#include <vaecf/device/cuda/platform.hpp>
#include <vaecf/device/cuda/storage.hpp>

#include <algorithm>
#include <cstdint>

namespace vaecf::cuda {

/// A dense matrix B (items, items) of weights between items, and the scores x B of a part of the users.
class ItemMatrix {
 public:
  ItemMatrix(Gpu& gpu, std::int64_t item_count, bool deterministic)
      : items(item_count),
        stride(round_up(item_count, row_alignment)),
        max_users(part_users(item_count)),
        values(gpu, items * stride, what),
        scores(gpu, max_users, items, DType::fp32),
        offsets(gpu, max_users + 1, what),
        products(gpu, deterministic) {}

  /// Returns the number of users whose scores are computed at once: about 40 MiB of scores, which fit into
  /// the L2 cache of an H100. B is read once for each part, so a part has at least 64 users.
  static std::int64_t part_users(std::int64_t items) {
    return std::clamp<std::int64_t>((std::int64_t{40} << 20) / (4 * std::max<std::int64_t>(1, items)), 64,
                                    512);
  }
  /// Returns the bytes of device memory that a matrix of `items` items and its scores take.
  static std::int64_t bytes(std::int64_t items) {
    return 4 * (items + part_users(items)) * round_up(items, row_alignment);
  }

  static constexpr const char* what = "the weights between items";
  std::int64_t items;
  std::int64_t stride;
  std::int64_t max_users;
  FloatBuffer values;                  // (items, stride)
  Activations scores;                  // (max_users, items)
  DeviceArray<std::int32_t> offsets;   // (max_users + 1) of the users' items
  FloatBuffer ones;                    // values of the users' items
  DeviceArray<std::int32_t> excluded;  // items whose score is -infinity
  SparseProducts products;
};

}  // namespace vaecf::cuda
