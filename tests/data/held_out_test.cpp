#include <vaecf/data/shards.hpp>

#include <gtest/gtest.h>

#include "data/support.hpp"

namespace vaecf::data {
namespace {

// Writes a dataset in which user r of `count` has fold-in item r and targets r + 1 and r + 2. With `torn`,
// one target row is missing.
std::string write_dataset(const test::TempFolder& folder, std::int32_t count, bool torn = false) {
  const std::string path = folder.path("held_out.h5");
  io::DatasetWriter writer(path);
  for (std::int32_t r = 0; r < count; ++r) {
    const std::vector<std::int32_t> fold_in{r};
    const std::vector<std::int32_t> targets{r + 1, r + 2};
    writer.append_row("validation/fold_in", fold_in);
    if (!torn || r > 0) writer.append_row("validation/held_out", targets);
  }
  const std::vector<std::int32_t> row{0, 1};
  writer.append_row("train", row);
  writer.set_attribute("items", std::int64_t{count + 2});
  writer.commit();
  return path;
}

TEST(HeldOut, RanksReadContiguousRangesOfEqualSize) {
  const test::TempFolder folder;
  const io::DatasetFile file(write_dataset(folder, 11));
  for (const int ranks : {1, 2, 3, 4, 16}) {
    std::int64_t next = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const HeldOutUsers users = read_held_out(file, "validation", rank, ranks);
      EXPECT_EQ(users.rows.begin, next);
      EXPECT_NEAR(static_cast<double>(users.rows.size()), 11.0 / ranks, 1);
      ASSERT_EQ(users.fold_in.rows(), users.rows.size());
      ASSERT_EQ(users.targets.rows(), users.rows.size());
      for (std::int64_t r = 0; r < users.rows.size(); ++r) {
        EXPECT_EQ(users.fold_in.view().row(r)[0], users.rows.begin + r);
        EXPECT_EQ(users.targets.view().row(r)[1], users.rows.begin + r + 2);
      }
      next = users.rows.end;
    }
    EXPECT_EQ(next, 11);
  }
}

TEST(HeldOut, SplitWithoutUsersIsEmptyAndRowsOfOtherUsersAreRejected) {
  const test::TempFolder folder;
  EXPECT_EQ(read_held_out(io::DatasetFile(write_dataset(folder, 3)), "test", 0, 2).rows, (Range{0, 0}));
  expect_in(message_of<InputError>(
                [&] { read_held_out(io::DatasetFile(write_dataset(folder, 3, true)), "validation", 0, 1); }),
            {"held_out"});
}

}  // namespace
}  // namespace vaecf::data
