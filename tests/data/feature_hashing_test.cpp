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

// Two hashes with sqrt(n) buckets each give n pairs of features. n independent values occupy about 1 - 1/e of
// them.
TEST(FeatureHashing, HashesOfAColumnAreIndependent) {
  const FeatureHashing hashing({{"city", 2, 100}});
  std::set<Numbers> pairs;
  for (int city = 0; city < 10000; ++city) pairs.insert(hashing.row(Texts{"city " + std::to_string(city)}));
  EXPECT_NEAR(static_cast<double>(pairs.size()), 6321, 150);
}

TEST(FeatureHashing, ColumnsHashTheSameValueDifferently) {
  const FeatureHashing hashing({{"home", 2, 1000}, {"work", 2, 1000}});
  const Numbers row = hashing.row(Texts{"Rome", "Rome"});
  ASSERT_EQ(row.size(), 4u);
  EXPECT_NE(row[0], row[2] - 2000);
  EXPECT_NE(row[1] - 1000, row[0]);
}

}  // namespace
}  // namespace vaecf::data
