#include <vaecf/base/views.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
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

TEST(ItemSliceRows, ValuesFollowTheirItems) {
  // Powers of two, whose sums are exact. Row 1 has no item of the first item slice, row 2 none at all.
  const Csr all = {{0, 3, 5, 5}, {0, 2, 6, 1, 5}, {.5F, 2.0F, 8.0F, 4.0F, .25F}};
  std::vector<std::map<std::int64_t, float>> found(3);
  for (std::int64_t s = 0; s < 3; ++s) {
    const ItemSlice item_slice{7, s, 3};
    ItemSliceRows part;
    part.append(all.view().subset({0, 1}), item_slice);  // in two blocks
    part.append(all.view().subset({1, 3}), item_slice);
    for (std::int64_t r = 0; r < 3; ++r) {
      float sum = 0.0F;
      const SparseRow row = part.rows.view().sparse_row(r);
      for (std::size_t k = 0; k < row.columns.size(); ++k) {
        found[r][item_slice.global(row.columns[k])] = row.value(k);
        sum += row.value(k);
      }
      EXPECT_EQ(part.totals[r].part, sum);
    }
    EXPECT_EQ(part.totals[0].sum, 10.5F);
    EXPECT_FLOAT_EQ(part.totals[0].norm, std::sqrt(68.25F));
    EXPECT_EQ(part.totals[1].sum, 4.25F);
    EXPECT_EQ(part.totals[2].norm, 0.0F);
  }
  EXPECT_EQ(found[0], (std::map<std::int64_t, float>{{0, .5F}, {2, 2.0F}, {6, 8.0F}}));
  EXPECT_EQ(found[1], (std::map<std::int64_t, float>{{1, 4.0F}, {5, .25F}}));
  EXPECT_TRUE(found[2].empty());
}

TEST(ItemSliceRows, AllItemsAreTheirOwnSlice) {
  const ItemSliceRows rows(Csr{{0, 2, 3}, {1, 4, 0}}, ItemSlice{5});
  EXPECT_EQ(rows.rows.columns, (std::vector<std::int32_t>{1, 4, 0}));
  EXPECT_TRUE(rows.totals.empty());
}

}  // namespace
}  // namespace vaecf
