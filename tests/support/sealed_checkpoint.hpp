#pragma once

#include <xxhash.h>

#include <cstdint>
#include <string>

namespace vaecf::testing {

/// Returns a checkpoint of a format with a valid 512-byte header for arbitrary `content`.
inline std::string sealed_checkpoint(const std::string& content, std::uint64_t checkpoint_format = 3) {
  const auto number = [](std::uint64_t value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  std::string seal = "VAECFCKP" + number(checkpoint_format) + number(content.size());
  seal += number(XXH3_64bits(content.data(), content.size()));
  seal.resize(512, '\0');
  return seal + content;
}

}  // namespace vaecf::testing
