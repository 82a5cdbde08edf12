#pragma once

#include <vaecf/base/host_device.hpp>

#include <cstdint>

namespace vaecf::cuda {

/// Returns `n` rounded up to a multiple of `to`.
inline VAECF_HD std::int64_t round_up(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

/// Alignment of stored rows in elements: at least 16 bytes in every precision.
constexpr std::int64_t row_alignment = 8;
/// Alignment of logit rows and everything indexed by item: 79 tiles of 256 columns for ML-20M's 20,108 items.
constexpr std::int64_t item_alignment = 256;
/// Alignment of tensors in the flat buffers: 256 bytes.
constexpr std::int64_t tensor_alignment = 64;

}  // namespace vaecf::cuda
