#pragma once

#include <vaecf/base/host_device.hpp>

#include <cstdint>

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

/// Returns value `k` of entries whose values are `values`; 1 if that is null.
VAECF_HD inline float value_at(const float* values, std::int64_t k) {
  return values != nullptr ? values[k] : 1.0F;
}

}  // namespace vaecf::cuda
