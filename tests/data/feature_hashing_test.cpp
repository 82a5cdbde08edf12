#include <gtest/gtest.h>

#include "data/support.hpp"

namespace vaecf::data {
namespace {

// Computed with an implementation of XXH64 in Python, from the formula in the header.
TEST(FeatureHashing, RowsMatchTheDocumentedFormula) {
  const FeatureHashing hashing({{"gender", 2, 16}, {"occupation", 2, 16}, {"country", 3, 20}});
  EXPECT_EQ(hashing.features(), 2 * 16 + 2 * 16 + 3 * 20);
  EXPECT_EQ(hashing.columns(), (Texts{"gender", "occupation", "country"}));
  EXPECT_EQ(hashing.row(Texts{"F", "12", "Germany"}), (Numbers{15, 18, 37, 51, 79, 99, 123}));
  EXPECT_EQ(hashing.row(Texts{"M", "", ""}), (Numbers{3, 22}));
  EXPECT_EQ(hashing.row(Texts{"", "", ""}), Numbers{});
  EXPECT_THROW(hashing.row(Texts{"F"}), InputError);
  EXPECT_EQ(FeatureHashing().features(), 0);
}

TEST(FeatureHashing, AttributeRoundTrips) {
  const FeatureHashing hashing({{"zip code", 1, 40}, {"\xc3\xa4ge 2", 16, 1}});
  EXPECT_EQ(hashing.to_string(), "xxh64 1\n1 40 zip code\n16 1 \xc3\xa4ge 2");
  EXPECT_EQ(FeatureHashing::parse(hashing.to_string()), hashing);
  EXPECT_EQ(FeatureHashing::parse("xxh64 1").features(), 0);
  EXPECT_EQ(FeatureHashing::parse("xxh64 1\n2 3 a\n").features(), 6);
}

TEST(FeatureHashing, ParseRejectsInvalidText) {
  for (const char* text :
       {"", "xxh64 2\n2 16 a", "crc", "xxh64 1\n\n", "xxh64 1\n2", "xxh64 1\n2 16", "xxh64 1\n2 16 ",
        "xxh64 1\n0 16 a", "xxh64 1\n17 16 a", "xxh64 1\n2 0 a", "xxh64 1\n-2 -16 a",
        "xxh64 1\n2 16 a\n2 16 a", "xxh64 1\n2 1073741824 a", "xxh64 1\n2 9223372036854775807 a",
        "xxh64 1\n1 2147483647 a\n1 1 b", "xxh64 1\n2 99999999999999999999 a", "xxh64 1\n2 16 a\rb"}) {
    EXPECT_THROW(FeatureHashing::parse(text), InputError) << text;
  }
  std::string many = "xxh64 1";
  for (int column = 0; column <= 4096; ++column) many += "\n1 1 " + std::to_string(column);
  EXPECT_THROW(FeatureHashing::parse(many), InputError);
  EXPECT_EQ(FeatureHashing::parse(many.substr(0, many.rfind('\n'))).features(), 4096);
  EXPECT_EQ(FeatureHashing::parse("xxh64 1\n1 2147483647 a").features(), 2147483647);
}

TEST(FeatureHashing, DefaultBucketsAreTheSquareRootAndAtLeast16) {
  EXPECT_EQ(FeatureHashing::default_buckets(0), 16);
  EXPECT_EQ(FeatureHashing::default_buckets(256), 16);
  EXPECT_EQ(FeatureHashing::default_buckets(257), 17);
  EXPECT_EQ(FeatureHashing::default_buckets(1000000), 1000);
}

}  // namespace
}  // namespace vaecf::data
