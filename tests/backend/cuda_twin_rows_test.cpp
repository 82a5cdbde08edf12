// How batches are cut from users' rows, on the twin of a GPU: see tests/support/cuda_twin.
#include "backend/cuda_twin_rows.hpp"

namespace vaecf::cuda {
namespace {

TEST_F(CudaTwinRows, BatchesAreTheSameFromBothPlacesAndForBothWidths) {
  for (const std::int64_t items : {1, 50, 65536, 65537, 70001}) {
    const Csr rows = make_rows(200, items);
    for (const char* resident : {"on", "off"}) {
      SCOPED_TRACE(std::string(resident) + " " + std::to_string(items));
      Reader reader(resident, rows, items);
      EXPECT_EQ(reader.held->resident(), std::string(resident) == "on");
      for (const std::int64_t stride : {7, 11}) {
        reader.follow(shuffled(200, stride), bounds);
        for (std::int64_t t = 0; t < reader.order->batches(); ++t) reader.expect(t);
      }
    }
  }
}

TEST_F(CudaTwinRows, BatchesInTurnAreThereBeforeTheyAreAskedFor) {
  const Csr rows = make_rows(200, 50);
  Reader reader("off", rows, 50);
  for (const std::int64_t stride : {7, 11, 13}) {
    reader.follow(shuffled(200, stride), bounds);
    for (std::int64_t t = 0; t < 6; ++t) reader.gather(t);
  }
  EXPECT_EQ(reader.prefetched(), 18);
  EXPECT_TRUE(content(reader.backend, *reader.batch) == expected(rows, 50, reader.rows_of(5), true));
}

TEST_F(CudaTwinRows, StreamedBatchesMayBeAskedForInAnyOrder) {
  const Csr rows = make_rows(200, 50);
  Reader reader("off", rows, 50);
  reader.follow(shuffled(200, 7), bounds);
  for (const std::int64_t t : {0, 0, 1, 1, 1, 2, 5, 4, 3, 2, 0, 1, 2, 5, 0, 5, 5}) reader.expect(t);
  EXPECT_GT(reader.prefetched(), 4);
  // A new order while the old one's next batch is on its way, twice.
  reader.expect(2);
  reader.follow(shuffled(200, 9), bounds);
  reader.follow(shuffled(200, 3), bounds);
  for (const std::int64_t t : {0, 1, 4}) reader.expect(t);
  // Another user of the same rows, in between.
  const auto other = reader.backend.make_batch();
  const std::vector<std::int64_t> some = {199, 3, 77};
  reader.backend.gather_batch(*reader.held, some, false, *other);
  EXPECT_TRUE(content(reader.backend, *other) == expected(rows, 50, some, false));
  reader.expect(5);
  // Two orders in turn.
  const auto second = reader.backend.make_batch_order();
  const std::vector<std::int64_t> two = {0, 1, 2};
  reader.backend.set_batch_order(*reader.held, two, two, *second);
  reader.expect(0);
  reader.backend.begin_step(numbers_of(1), *reader.step);
  reader.backend.gather_step(*reader.held, *second, *reader.step, 1, *other);
  EXPECT_TRUE(content(reader.backend, *other) == expected(rows, 50, std::vector<std::int64_t>{1}, true));
  reader.expect(1);
}

TEST_F(CudaTwinRows, LargerOrdersFollowSmallerOnes) {
  const Csr rows = make_rows(200, 50);
  for (const char* resident : {"on", "off"}) {
    Reader reader(resident, rows, 50);
    for (const std::int64_t users : {1, 30, 200, 2}) {
      reader.follow(shuffled(200, 7), {0, users, 200});
      reader.expect(0);
      reader.expect(1);
    }
  }
}

TEST_F(CudaTwinRows, CutsFromTheHostDoNotOverwriteOneAnother) {
  const Csr rows = make_rows(200, 50);
  for (const char* resident : {"on", "off"}) {
    CudaBackend backend(options(resident), 0);
    const auto held = backend.hold_rows(rows.view(), first_user, 50);
    std::vector<std::vector<std::int64_t>> chosen;
    std::vector<std::unique_ptr<backend::Batch>> batches;
    for (std::int64_t i = 0; i < 6; ++i) {
      chosen.push_back(shuffled(200, 2 * i + 3));
      chosen.back().resize(static_cast<std::size_t>(i == 3 ? 0 : 30 * i + 1));
      batches.push_back(backend.make_batch());
      // The twin is lazy: nothing has run before somebody waits.
      backend.gather_batch(*held, chosen.back(), i % 2 == 0, *batches.back());
    }
    // The same batch several times over.
    for (const auto& rows_now : chosen) backend.gather_batch(*held, rows_now, true, *batches.front());
    for (std::size_t i = 1; i < batches.size(); ++i) {
      EXPECT_TRUE(content(backend, *batches[i]) == expected(rows, 50, chosen[i], i % 2 == 0))
          << resident << i;
    }
    EXPECT_TRUE(content(backend, *batches.front()) == expected(rows, 50, chosen.back(), true));
  }
}

TEST_F(CudaTwinRows, ANewOrderLeavesBatchesOfTheOldOneAlone) {
  const Csr rows = make_rows(200, 50);
  for (const char* resident : {"on", "off"}) {
    Reader reader(resident, rows, 50);
    reader.follow(shuffled(200, 7), bounds);
    reader.gather(1);
    const std::vector<std::int64_t> chosen(reader.rows_of(1).begin(), reader.rows_of(1).end());
    reader.follow(shuffled(200, 11), bounds);
    EXPECT_TRUE(content(reader.backend, *reader.batch) == expected(rows, 50, chosen, true)) << resident;
  }
}

TEST_F(CudaTwinRows, LongRowsComeInPieces) {
  Csr rows;
  for (std::int64_t k = 0; k < 2300000; ++k)
    rows.columns.push_back(static_cast<std::int32_t>(k * 7919 % 50000));
  rows.offsets = {0, 1, 1200000, 2300000};
  CudaBackend backend(options("on"), 0);
  const auto held = backend.hold_rows(rows.view(), first_user, 50000);
  EXPECT_EQ(held->description().substr(0, 51), "3 users, 2.3 M interactions resident on the GPU: 4.");
  backend.synchronize();
  const ItemIds ids = gpu(*held).ids();
  std::int64_t wrong = 0;
  for (std::size_t k = 0; k < rows.columns.size(); ++k) {
    wrong += ids[static_cast<std::int64_t>(k)] != rows.columns[k] ? 1 : 0;
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(gpu(*held).offsets()[2], 1200000);
}

TEST_F(CudaTwinRows, RowsThatAreNotThereAreRefused) {
  const Csr rows = make_rows(20, 50);
  for (const char* resident : {"on", "off"}) {
    Reader reader(resident, rows, 50);
    EXPECT_THROW(reader.follow({0, 20}, {0, 2}), std::out_of_range);
    EXPECT_THROW(reader.follow({0, -1}, {0, 2}), std::out_of_range);
    EXPECT_THROW(reader.follow({0, 1}, {0, 3}), std::out_of_range);
    EXPECT_THROW(reader.follow({0, 1}, {2, 0}), std::out_of_range);
    EXPECT_THROW(
        reader.backend.gather_batch(*reader.held, std::vector<std::int64_t>{20}, false, *reader.batch),
        std::out_of_range);
    reader.follow({0, 1}, {0, 2});
    EXPECT_THROW(reader.gather(-1, 2), std::logic_error);
    EXPECT_THROW(reader.gather(1, 2), std::logic_error);
    EXPECT_THROW(reader.gather(0, 1), std::logic_error);
    reader.expect(0);
    reader.follow({}, {});
    EXPECT_EQ(reader.order->batches(), 0);
    EXPECT_THROW(reader.gather(0, 0), std::logic_error);
  }
}

TEST_F(CudaTwinRows, ItemsThatAreNoneSurfaceWhereTheBatchIsAskedFor) {
  Csr rows = make_rows(200, 50);
  for (const std::int32_t item : {50, -1, 70000}) {
    const auto entry = static_cast<std::size_t>(rows.offsets[100]);
    const std::int32_t whole = rows.columns[entry];  // of user 100, who has some
    rows.columns[entry] = item;
    CudaBackend backend(options("on"), 0);
    EXPECT_THROW(backend.hold_rows(rows.view(), first_user, 50), InputError);

    Reader reader("off", rows, 50);
    reader.follow(shuffled(200, 1), {0, 40, 80, 120, 160, 200});
    reader.expect(0);
    reader.expect(1);
    EXPECT_THROW(reader.gather(2), InputError);
    EXPECT_THROW(reader.gather(2), InputError);  // cut at once, this time
    reader.expect(3);
    reader.expect(4);
    rows.columns[entry] = whole;
  }
}

TEST_F(CudaTwinRows, MayEndWhileABatchIsOnItsWay) {
  const Csr rows = make_rows(2000, 50);
  for (int times = 0; times < 20; ++times) {
    Reader reader("off", rows, 50);
    reader.follow(shuffled(2000, 7), {0, 1000, 2000});
    if (times % 2 == 0) reader.gather(0);
  }
}

TEST_F(CudaTwinRows, WithoutUsersOrItemsHeld) {
  const Csr none;
  Csr empty;
  empty.offsets.assign(11, 0);
  for (const char* resident : {"on", "off"}) {
    Reader nobody(resident, none, 50);
    nobody.follow({}, {0, 0});
    nobody.expect(0);
    Reader idle(resident, empty, 50);
    idle.follow(shuffled(10, 3), {0, 4, 10});
    idle.expect(0);
    idle.expect(1);
  }
}

}  // namespace
}  // namespace vaecf::cuda
