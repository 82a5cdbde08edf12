#include <vaecf/base/text.hpp>
#include <vaecf/io/hash.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <xxhash.h>

namespace vaecf::io {

std::uint64_t xxh64(std::string_view bytes, std::uint64_t seed) {
  return XXH64(bytes.data(), bytes.size(), seed);
}

// The functions for 64 and 128 bits differ in the digest only.
struct Xxh3::State {
  XXH3_state_t xxh;
};

Xxh3::Xxh3() : state_(std::make_shared<State>()) {
  XXH3_128bits_reset(&state_->xxh);
}

void Xxh3::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
}

std::uint64_t Xxh3::hash64() const {
  return XXH3_64bits_digest(&state_->xxh);
}

std::string Xxh3::hash128() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh);
  return format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace vaecf::io
