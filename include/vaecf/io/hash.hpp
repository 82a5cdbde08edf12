#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace vaecf::io {

/// Returns XXH64 (xxHash) of `bytes`; the value does not depend on the platform. It is not a cryptographic
/// hash.
std::uint64_t xxh64(std::string_view bytes, std::uint64_t seed = 0);

/// Incremental XXH3 (xxHash), which tells changed files from equal ones. It is not a cryptographic hash.
/// A copy refers to the same input.
class Xxh3 {
 public:
  Xxh3();
  /// Appends `bytes` to the input.
  void update(std::span<const std::byte> bytes);
  /// Returns the hash of all bytes with 64 bits.
  std::uint64_t hash64() const;
  /// Returns the 128-bit hash of all bytes as 32 hexadecimal digits, as the program xxh128sum prints it.
  std::string hash128() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace vaecf::io
