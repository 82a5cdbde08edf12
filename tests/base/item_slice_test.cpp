#include <vaecf/base/views.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

namespace vaecf {
namespace {

TEST(ItemSlice, SlicesPartitionTheItemsAndCountSmallerOnes) {
  for (const std::int64_t items : {1, 2, 5, 7, 31, 32, 257}) {
    for (const std::int64_t item_slices : {1, 2, 3, 5, 7, 8}) {
      std::set<std::int64_t> seen;
      for (std::int64_t s = 0; s < item_slices; ++s) {
        const ItemSlice item_slice{items, s, item_slices};
        for (std::int64_t j = 0; j < item_slice.count(); ++j) {
          const std::int64_t item = item_slice.global(j);
          EXPECT_TRUE(item_slice.holds(item));
          EXPECT_EQ(item_slice.local(item), j);
          EXPECT_TRUE(seen.insert(item).second);
        }
        std::int64_t smaller = 0;
        for (std::int64_t item = 0; item <= items; ++item) {
          EXPECT_EQ(item_slice.before(item), smaller);
          if (item < items && item_slice.holds(item)) ++smaller;
        }
      }
      EXPECT_EQ(static_cast<std::int64_t>(seen.size()), items);
      EXPECT_EQ(*seen.rbegin(), items - 1);
    }
  }
}

TEST(ItemSliceRows, SlicesOfRowsPartitionTheirItems) {
  const std::vector<std::int64_t> offsets = {0, 3, 3, 5, 9};
  const std::vector<std::int32_t> columns = {0, 2, 6, 2, 5, 1, 3, 4, 6};
  const CsrView all{offsets, columns};
  std::vector<std::set<std::int64_t>> found(4);
  for (std::int64_t s = 0; s < 3; ++s) {
    const ItemSlice item_slice{7, s, 3};
    ItemSliceRows part;
    part.append(all.subset({0, 1}), item_slice);  // in two blocks
    part.append(all.subset({1, 4}), item_slice);
    ASSERT_EQ(part.rows.rows(), 4);
    for (std::int64_t r = 0; r < 4; ++r) {
      EXPECT_EQ(part.totals[r].sum, static_cast<float>(all.row_size(r))) << "of all item slices";
      EXPECT_EQ(part.totals[r].norm, std::sqrt(static_cast<float>(all.row_size(r))));
      EXPECT_EQ(part.totals[r].part, static_cast<float>(part.rows.view().row_size(r)));
      const auto row = part.rows.view().row(r);
      EXPECT_TRUE(std::ranges::is_sorted(row));
      for (const std::int32_t local : row) EXPECT_TRUE(found[r].insert(item_slice.global(local)).second);
    }
  }
  for (std::int64_t r = 0; r < 4; ++r) {
    const auto row = all.row(r);
    EXPECT_EQ(found[r], std::set<std::int64_t>(row.begin(), row.end())) << "row " << r;
  }
}

TEST(ItemSliceRows, AllItemsAreTheirOwnSlice) {
  const ItemSliceRows rows(Csr{{0, 2, 3}, {1, 4, 0}}, ItemSlice{5});
  EXPECT_EQ(rows.rows.columns, (std::vector<std::int32_t>{1, 4, 0}));
  EXPECT_TRUE(rows.totals.empty());
}

}  // namespace
}  // namespace vaecf
