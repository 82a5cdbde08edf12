#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace vaecf::io {

/// Returns XXH64 (xxHash) of `bytes`; the value does not depend on the platform. It is not a cryptographic
/// hash.
std::uint64_t xxh64(std::string_view bytes, std::uint64_t seed = 0);

/// Incremental XXH3 with 128 bits (xxHash), which tells changed files from equal ones. It is not a
/// cryptographic hash.
class Xxh128 {
 public:
  Xxh128();
  ~Xxh128();
  Xxh128(const Xxh128&) = delete;
  Xxh128& operator=(const Xxh128&) = delete;

  /// Appends `bytes` to the input.
  void update(std::span<const char> bytes);
  /// Returns the hash of all bytes as 32 hexadecimal digits, as the program xxh128sum prints it.
  std::string finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vaecf::io
