#pragma once

#include <vaecf/base/host_device.hpp>

#include <cstdint>

/// Access of kernels to users' rows.
namespace vaecf::cuda {

/// Returns the bytes per item id: two if the ids of all items fit.
inline std::int64_t id_bytes(std::int64_t items) {
  return items <= 65536 ? 2 : 4;
}

/// Item ids of user rows, each of id_bytes(items) bytes.
class ItemIds {
 public:
  ItemIds() = default;
  ItemIds(const void* ids, std::int64_t items)
      : narrow_(id_bytes(items) == 2 ? static_cast<const std::uint16_t*>(ids) : nullptr),
        wide_(static_cast<const std::uint32_t*>(ids)) {}
  VAECF_HD std::int32_t operator[](std::int64_t k) const {
    return narrow_ != nullptr ? static_cast<std::int32_t>(narrow_[k]) : static_cast<std::int32_t>(wide_[k]);
  }

 private:
  const std::uint16_t* narrow_ = nullptr;
  const std::uint32_t* wide_ = nullptr;
};

/// Numbers of items of users' rows in all slices.
struct RowSizes {
  const std::int64_t* offsets;  // of the slice's rows
  const std::int32_t* sizes;    // null: the rows have all items
  VAECF_HD std::int64_t operator()(std::int64_t row) const {
    return sizes != nullptr ? sizes[row] : offsets[row + 1] - offsets[row];
  }
};

}  // namespace vaecf::cuda
