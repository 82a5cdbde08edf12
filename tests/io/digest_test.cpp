// Expected digests: the examples of FIPS 180-4 and one made with sha256sum.
#include <vaecf/io/digest.hpp>

#include "io/io_fixture.hpp"

#if VAECF_HAS_OPENSSL
#include <openssl/evp.h>
#endif

namespace vaecf::io {
namespace {

std::string digest_of(const std::string& text, std::size_t piece) {
  Sha256 hash;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    const std::string part = text.substr(at, piece);
    hash.update(part);
  }
  return hash.finish();
}

TEST(Sha256, KnownDigests) {
  EXPECT_EQ(digest_of("", 1), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest_of("abc", 3), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(digest_of(std::string(1000000, 'a'), 65),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

#if VAECF_HAS_OPENSSL && OPENSSL_VERSION_MAJOR >= 3
// As if OPENSSL_CONF selected a missing provider.
TEST(Sha256, ReportsThatOpensslHasNoSha256) {
  ASSERT_EQ(EVP_set_default_properties(nullptr, "provider=none"), 1);
  expect_refused<RunError>({"OpenSSL cannot compute SHA-256 (error:", "openssl.cnf"}, [] { Sha256 hash; });
  ASSERT_EQ(EVP_set_default_properties(nullptr, ""), 1);
  EXPECT_EQ(digest_of("abc", 3), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
#endif

// Values published by xxHash and python-xxhash, which must agree, since the hash is stored in files.
TEST(Hash, MatchesPublishedXxh64Values) {
  EXPECT_EQ(xxh64(""), 0xEF46DB3751D8E999u);
  EXPECT_EQ(xxh64("a"), 0xD24EC4F1A98C6E5Bu);
  EXPECT_EQ(xxh64("Nobody inspects the spammish repetition"), 0xFBCEA83C8A378BF1u);
  EXPECT_EQ(xxh64("xxhash", 20141025), 0xB559B98D844E0635u);
}

}  // namespace
}  // namespace vaecf::io
