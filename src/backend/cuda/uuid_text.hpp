#pragma once

#include <vaecf/base/format.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <string>

namespace vaecf::cuda {

/// As nvidia-smi prints it.
inline std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  constexpr std::array<int, 5> group_begin{0, 4, 6, 8, 10};
  for (int i = 0; i < 16; ++i) {
    if (std::find(group_begin.begin(), group_begin.end(), i) != group_begin.end()) text += '-';
    text += format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

}  // namespace vaecf::cuda
