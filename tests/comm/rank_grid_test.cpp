// Tests communicators that are parts of others, and the grid of model-parallel groups and item slices, on
// every kind of communicator.
#include <vaecf/base/views.hpp>
#include <vaecf/comm/rank_grid.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "comm/communicators.hpp"

namespace vaecf::comm {
namespace {

TEST(Split, MakesTheRanksOfAColorInTheOrderOfTheirKeys) {
  for_each_communicator([](Communicator& world) {
    const int color = world.rank() % 2;
    const auto part = world.split(color, -world.rank());
    const int members = (world.size() + 1 - color) / 2;
    ASSERT_EQ(part->size(), members);
    EXPECT_EQ(part->rank(), members - 1 - world.rank() / 2);
    EXPECT_EQ(&part->activity(), &world.activity());
    const std::int64_t rank = world.rank();
    std::vector<std::int64_t> all(static_cast<std::size_t>(members));
    part->all_gather(std::span(&rank, 1), std::span(all));
    for (int r = 0; r < members; ++r)
      EXPECT_EQ(all[static_cast<std::size_t>(r)], color + 2 * (members - 1 - r));
    EXPECT_EQ(part->local_size(), members);
  });
}

TEST(Split, PartsOfPartsAndTheirParentWorkInTurn) {
  for_each_communicator([](Communicator& world) {
    const auto part = world.split(world.rank() / 2, world.rank());
    const auto alone = part->split(part->rank(), 0);
    ASSERT_EQ(alone->size(), 1);
    for (int round = 0; round < 3; ++round) {
      std::vector<float> of_world(5, 1.0F);
      std::vector<float> of_part(7, 2.0F);
      const Request first = world.all_reduce_async(of_world, {});
      const Request second = part->all_reduce_async(of_part, {});
      part->wait(second);
      world.wait(first);
      EXPECT_EQ(of_world, std::vector<float>(5, static_cast<float>(world.size())));
      EXPECT_EQ(of_part, std::vector<float>(7, 2.0F * static_cast<float>(part->size())));
      EXPECT_EQ(alone->all_reduce(std::int64_t{4}), 4);
    }
  });
}

TEST(RankGrid, EveryRankHasAGroupAndASliceThatExchanges) {
  for_each_communicator([](Communicator& world) {
    for (int item_slices = 1; item_slices <= world.size(); ++item_slices) {
      if (world.size() % item_slices != 0) {
        EXPECT_THROW(RankGrid(world, item_slices), std::logic_error);
        continue;
      }
      const RankGrid grid(world, item_slices);
      const int model_parallel_group = grid.model_parallel_group();
      const int item_slice = grid.item_slice();
      EXPECT_EQ(model_parallel_group * item_slices + item_slice, world.rank());
      EXPECT_EQ(grid.model_parallel_groups() * grid.item_slices(), world.size());
      EXPECT_EQ(grid.model_parallel_ranks().size(), item_slices);
      EXPECT_EQ(grid.model_parallel_ranks().rank(), item_slice);
      EXPECT_EQ(grid.data_parallel_ranks().size(), grid.model_parallel_groups());
      EXPECT_EQ(grid.data_parallel_ranks().rank(), model_parallel_group);
      EXPECT_EQ(grid.model_parallel_ranks().all_reduce(std::int64_t{model_parallel_group}),
                item_slices * model_parallel_group);
      EXPECT_EQ(grid.data_parallel_ranks().all_reduce(std::int64_t{item_slice}),
                grid.model_parallel_groups() * item_slice);

      device::ModelParallelGroup& items = grid.model_parallel();
      ASSERT_EQ(items.count(), item_slices);
      ASSERT_EQ(items.index(), item_slice);
      std::vector<float> all(3 * static_cast<std::size_t>(item_slices));
      for (std::size_t i = 0; i < all.size(); ++i)
        all[i] = static_cast<float>(100 * world.rank()) + static_cast<float>(i);
      std::vector<float> part(3);
      items.reduce_scatter(all, part, {});
      int ranks = 0;
      for (int s = 0; s < item_slices; ++s) ranks += model_parallel_group * item_slices + s;
      for (int i = 0; i < 3; ++i)
        EXPECT_EQ(part[static_cast<std::size_t>(i)],
                  static_cast<float>(item_slices * (3 * item_slice + i) + 100 * ranks));
      std::vector<float> gathered(all.size());
      items.all_gather(std::vector<float>(3, static_cast<float>(item_slice)), gathered, {});
      for (std::size_t i = 0; i < gathered.size(); ++i) EXPECT_EQ(gathered[i], static_cast<float>(i / 3));
    }
  });
}

}  // namespace
}  // namespace vaecf::comm
