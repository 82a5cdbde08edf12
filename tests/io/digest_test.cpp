#include <vaecf/io/hash.hpp>

#include "io/io_fixture.hpp"

namespace vaecf::io {
namespace {

Xxh3 hash_of(const std::string& text, std::size_t piece) {
  Xxh3 hash;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    const std::string part = text.substr(at, piece);
    hash.update(std::as_bytes(std::span(part)));
  }
  return hash;
}

// Values of python-xxhash, which are those of the program xxh128sum.
TEST(Hash, Xxh3IsThatOfXxhashInPiecesOfAnySize) {
  EXPECT_EQ(hash_of("", 1).hash128(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hash_of("abc", 2).hash128(), "06b05ab6733a618578af5f94892f3950");
  EXPECT_EQ(hash_of("Nobody inspects the spammish repetition", 39).hash128(),
            "a32c6f55b80b5f449f1a957522431b91");
  EXPECT_EQ(hash_of(std::string(1000000, 'a'), 65).hash128(), "a545df8e384a9579b1fd6fae5285c4eb");
  EXPECT_EQ(hash_of("", 1).hash64(), 0x2d06800538d394c2u);
  EXPECT_EQ(hash_of("abc", 2).hash64(), 0x78af5f94892f3950u);
  EXPECT_EQ(hash_of(std::string(1000000, 'a'), 65).hash64(), 0xb1fd6fae5285c4ebu);
}

// Values published by xxHash and python-xxhash, which must agree, since the hash is stored in files.
TEST(Hash, MatchesPublishedXxh64Values) {
  EXPECT_EQ(xxh64(""), 0xEF46DB3751D8E999u);
  EXPECT_EQ(xxh64("a"), 0xD24EC4F1A98C6E5Bu);
  EXPECT_EQ(xxh64("Nobody inspects the spammish repetition"), 0xFBCEA83C8A378BF1u);
  EXPECT_EQ(xxh64("xxhash", 20141025), 0xB559B98D844E0635u);
}

}  // namespace
}  // namespace vaecf::io
