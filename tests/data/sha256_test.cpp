// Expected digests: the examples of FIPS 180-4 and one made with sha256sum.
#include "data/sha256.hpp"

#include <gtest/gtest.h>

namespace vaecf::data {
namespace {

std::string digest_by(bool instructions, const std::string& text, std::size_t piece) {
  Sha256 hash(instructions);
  for (std::size_t at = 0; at < text.size(); at += piece) {
    const std::string part = text.substr(at, piece);
    hash.update(part);
  }
  return hash.finish();
}

// Both ways where there are two.
std::string digest(const std::string& text, std::size_t piece) {
  const std::string plain = digest_by(false, text, piece);
  if (has_sha_instructions()) {
    EXPECT_EQ(digest_by(true, text, piece), plain);
  }
  return plain;
}

TEST(Sha256, KnownDigests) {
  EXPECT_EQ(digest("", 1), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest("abc", 3), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, AMillionBytesInAnyPieces) {
  const std::string text(1000000, 'a');
  for (const std::size_t piece : {1, 63, 64, 65, 1000000}) {
    EXPECT_EQ(digest(text, piece), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  }
}

}  // namespace
}  // namespace vaecf::data
