#include <vaecf/io/hash.hpp>

#include <gtest/gtest.h>

namespace vaecf::io {
namespace {

// As published by xxHash and in the README of python-xxhash: files made here must mean the same elsewhere.
TEST(Hash, IsXxh64) {
  EXPECT_EQ(xxh64(""), 0xEF46DB3751D8E999u);
  EXPECT_EQ(xxh64("a"), 0xD24EC4F1A98C6E5Bu);
  EXPECT_EQ(xxh64("abc"), 0x44BC2CF5AD770999u);
  EXPECT_EQ(xxh64("message digest"), 0x066ED728FCEEB3BEu);
  EXPECT_EQ(xxh64("Nobody inspects the spammish repetition"), 0xFBCEA83C8A378BF1u);
  EXPECT_EQ(xxh64("xxhash"), 0x32DD38952C4BC720u);
  EXPECT_EQ(xxh64("xxhash", 20141025), 0xB559B98D844E0635u);
  EXPECT_EQ(xxh64("I want an unsigned 64-bit seed!", 1), 0xCE5087F12470D961u);
}

}  // namespace
}  // namespace vaecf::io
