#include <vaecf/base/item_slice.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>

namespace vaecf {
namespace {

TEST(ItemSlice, SlicesPartitionTheItems) {
  for (const std::int64_t items : {1, 2, 7, 31, 257}) {
    for (const std::int64_t slices : {1, 2, 3, 5, 8}) {
      std::set<std::int64_t> seen;
      for (std::int64_t s = 0; s < slices; ++s) {
        const ItemSlice slice{items, s, slices};
        for (std::int64_t j = 0; j < slice.count(); ++j) {
          const std::int64_t item = slice.global(j);
          EXPECT_TRUE(slice.holds(item));
          EXPECT_EQ(slice.local(item), j);
          EXPECT_TRUE(seen.insert(item).second);
        }
      }
      EXPECT_EQ(static_cast<std::int64_t>(seen.size()), items);
      EXPECT_EQ(*seen.rbegin(), items - 1);
    }
  }
}

TEST(ItemSlice, BeforeCountsTheSmallerItems) {
  for (const std::int64_t items : {1, 5, 32}) {
    for (const std::int64_t slices : {1, 2, 3, 7}) {
      for (std::int64_t s = 0; s < slices; ++s) {
        const ItemSlice slice{items, s, slices};
        std::int64_t smaller = 0;
        for (std::int64_t item = 0; item <= items; ++item) {
          EXPECT_EQ(slice.before(item), smaller);
          if (item < items && slice.holds(item)) ++smaller;
        }
      }
    }
  }
}

}  // namespace
}  // namespace vaecf
