// Replaces sha256_openssl.cpp in a program built without OpenSSL.

#include <vaecf/base/format.hpp>
#include <vaecf/io/digest.hpp>

#include <algorithm>
#include <array>
#include <bit>

namespace vaecf::io {
namespace {

using Words = std::array<std::uint32_t, 8>;

constexpr std::size_t digest_block_bytes = 64;

// FIPS 180-4, 4.2.2: the first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<std::uint32_t, 64> constants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// FIPS 180-4, 6.2.2.
void add_block(Words& hash, const char* bytes) {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t i = 0; i < digest_block_bytes; ++i)
    w[i / 4] = w[i / 4] << 8 | static_cast<unsigned char>(bytes[i]);
  for (std::size_t t = 16; t < 64; ++t) {
    const std::uint32_t x = w[t - 15], y = w[t - 2];
    w[t] = w[t - 16] + w[t - 7] + (std::rotr(x, 7) ^ std::rotr(x, 18) ^ x >> 3) +
           (std::rotr(y, 17) ^ std::rotr(y, 19) ^ y >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = hash;
  for (std::size_t t = 0; t < 64; ++t) {
    const std::uint32_t t1 = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                             ((e & f) ^ (~e & g)) + constants[t] + w[t];
    const std::uint32_t t2 =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const Words add = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < hash.size(); ++i) hash[i] += add[i];
}

}  // namespace

struct Sha256::State {
  Words hash = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<char, digest_block_bytes>
      block{};  // its first bytes % digest_block_bytes bytes are not in `hash` yet
  std::uint64_t bytes = 0;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;

void Sha256::update(std::span<const char> bytes) {
  State& s = *state_;
  while (!bytes.empty()) {
    const std::size_t used = s.bytes % digest_block_bytes;
    const std::size_t some = std::min(bytes.size(), digest_block_bytes - used);
    std::copy_n(bytes.begin(), some, s.block.begin() + static_cast<std::ptrdiff_t>(used));
    s.bytes += some;
    bytes = bytes.subspan(some);
    if (used + some == digest_block_bytes) add_block(s.hash, s.block.data());
  }
}

std::string Sha256::finish() {
  const std::uint64_t bits = state_->bytes * 8;
  constexpr char one_bit[] = {'\x80'};
  constexpr char zero[] = {'\0'};
  update(one_bit);
  while (state_->bytes % digest_block_bytes != digest_block_bytes - 8) update(zero);
  std::array<char, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i) length[i] = static_cast<char>(bits >> (56 - 8 * i));
  update(length);
  std::string digits;
  for (const std::uint32_t word : state_->hash) digits += format("{:08x}", word);
  return digits;
}

}  // namespace vaecf::io
