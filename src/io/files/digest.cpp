#include <vaecf/base/format.hpp>
#include <vaecf/io/digest.hpp>

#include <xxhash.h>

namespace vaecf::io {

std::uint64_t xxh64(std::string_view bytes, std::uint64_t seed) {
  return XXH64(bytes.data(), bytes.size(), seed);
}

struct Xxh128::State {
  XXH3_state_t xxh;
};

Xxh128::Xxh128() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->xxh);
}
Xxh128::~Xxh128() = default;

void Xxh128::update(std::span<const char> bytes) {
  XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
}

std::string Xxh128::finish() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh);
  return format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace vaecf::io
