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

/// Incremental SHA-256 (FIPS 180-4), computed by OpenSSL, or by plain loops in a program built without it.
/// All functions throw RunError if OpenSSL fails, for example if its configuration loads no provider of
/// SHA-256.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  /// Appends `bytes` to the input.
  void update(std::span<const char> bytes);
  /// Returns the digest of all bytes as 64 hexadecimal digits. No function may be called afterwards.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vaecf::io
