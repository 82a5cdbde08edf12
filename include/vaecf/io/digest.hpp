#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace vaecf::io {

/// XXH64 of xxHash: the same number on every machine and in every language that has the library. For tables,
/// not against forgers.
std::uint64_t xxh64(std::string_view bytes, std::uint64_t seed = 0);

/// SHA-256 (FIPS 180-4) of bytes that come in pieces, by OpenSSL. All throw RunError where that fails, as it
/// does when its configuration names no provider that has SHA-256.
class Sha256 {
 public:
  Sha256();

  void update(std::span<const char> bytes);
  /// The digest of everything so far, 64 hexadecimal digits. Nothing may follow.
  std::string finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace vaecf::io
