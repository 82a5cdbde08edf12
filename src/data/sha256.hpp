#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "data/sha256_x86.hpp"

namespace vaecf::data {

/// SHA-256 (FIPS 180-4) of bytes that come in pieces: tells which source file a data set was made from.
class Sha256 {
 public:
  /// `by_instructions`: with the processor's own for it, which must be there.
  explicit Sha256(bool by_instructions = has_sha_instructions()) : by_instructions_(by_instructions) {}

  void update(std::span<const char> bytes);
  /// The digest of everything so far, 64 hexadecimal digits. Call once.
  std::string finish();

 private:
  void compress(const unsigned char* block);

  bool by_instructions_;
  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> block_{};
  std::size_t filled_ = 0;
  std::uint64_t length_ = 0;
};

}  // namespace vaecf::data
