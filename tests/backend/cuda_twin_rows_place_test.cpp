// Where users' rows lie, and what that means for recordings.
#include "backend/cuda_twin_rows.hpp"

namespace vaecf::cuda {
namespace {

TEST_F(CudaTwinRows, RecordingsEndWhereAnOrderOutgrowsThem) {
  const Csr rows = make_rows(2000, 50);
  Reader reader("on", rows, 50);
  const auto record = [&] {
    reader.backend.begin_step(numbers_of(0), *reader.step);
    return reader.backend.record(
        [&] { reader.backend.gather_step(*reader.held, *reader.order, *reader.step, 700, *reader.batch); });
  };
  const auto replays = [&](backend::Recording& recording, std::int64_t t) {
    reader.backend.begin_step(numbers_of(t), *reader.step);
    if (!reader.backend.replay(recording)) return false;
    EXPECT_TRUE(content(reader.backend, *reader.batch) == expected(rows, 50, reader.rows_of(t), true)) << t;
    return true;
  };
  // Users 0, 7, 14 .. have no items at all.
  std::vector<std::int64_t> sparse = shuffled(2000, 1);
  std::stable_partition(sparse.begin(), sparse.end(), [](std::int64_t row) { return row % 7 < 3; });
  sparse.resize(1400);
  reader.follow(sparse, {0, 700, 700});
  const auto recording = record();
  EXPECT_TRUE(replays(*recording, 0));
  // Other rows, hardly more in them: they fit.
  std::reverse(sparse.begin(), sparse.begin() + 700);
  reader.follow(sparse, {0, 700, 700});
  EXPECT_TRUE(replays(*recording, 0));
  // The heavy ones do not.
  std::vector<std::int64_t> heavy = shuffled(2000, 1);
  std::stable_partition(heavy.begin(), heavy.end(), [](std::int64_t row) { return row % 7 > 3; });
  heavy.resize(1400);
  reader.follow(heavy, {0, 700, 1400});
  EXPECT_FALSE(replays(*recording, 0));
  const auto again = record();
  EXPECT_TRUE(replays(*again, 1));
  EXPECT_TRUE(replays(*again, 0));
  // Nor does an order of more users.
  reader.follow(shuffled(2000, 3), {0, 700, 1400});
  EXPECT_FALSE(replays(*again, 0));
}

TEST_F(CudaTwinRows, StreamedBatchesAreNoPartOfARecording) {
  const Csr rows = make_rows(20, 50);
  Reader reader("off", rows, 50);
  reader.follow(shuffled(20, 1), {0, 10, 20});
  EXPECT_THROW(reader.backend.record([&] { reader.gather(0); }), std::logic_error);
  EXPECT_THROW(reader.backend.record([&] {
    reader.backend.gather_step(*reader.held, *reader.order, *reader.step, 10, *reader.batch);
  }),
               std::logic_error);
  reader.expect(0);
  reader.expect(1);
}

TEST_F(CudaTwinRows, StayOnTheHostWhereTheyDoNotFit) {
  // The twin with number n has n MiB, of which a quarter is kept free. 150 K items of 2 bytes: 300 KiB.
  Csr rows;
  rows.columns.assign(150 << 10, 1);
  rows.offsets.push_back(150 << 10);
  Csr large;
  large.columns.assign(450 << 10, 1);
  large.offsets.push_back(450 << 10);
  Csr too_large;
  too_large.columns.assign(600 << 10, 1);
  too_large.offsets.push_back(600 << 10);
  const auto place = [&](const char* resident, const Csr& what, std::int64_t items = 50) {
    CudaBackend backend(options(resident), 1);
    const auto held = backend.hold_rows(what.view(), 0, items);
    EXPECT_EQ(held->rows(), 1);
    return std::string(held->resident() ? "device: " : "host: ") + held->description();
  };
  EXPECT_EQ(place("auto", rows),
            "device: 1 users, 153600 interactions resident on the GPU: 300 KiB in 16-bit "
            "ids, 724 KiB free");
  EXPECT_EQ(place("auto", rows, 70000).substr(0, 6), "device");
  EXPECT_EQ(place("auto", large),
            "host: 1 users, 460800 interactions streamed from the host: 900 KiB are "
            "needed and 1.0 MiB free (256 KiB stay so for weights, activations and logits)");
  EXPECT_EQ(place("on", large).substr(0, 6), "device");
  EXPECT_EQ(place("off", rows),
            "host: 1 users, 153600 interactions streamed from the host, as "
            "backend.resident: off asks");
  EXPECT_EQ(place("auto", too_large).substr(0, 5), "host:");
  try {
    place("on", too_large);
    FAIL() << "more than there is";
  } catch (const RunError& error) {
    EXPECT_NE(std::string(error.what()).find("1.2 MiB are needed and 1.0 MiB free"), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("backend.resident: auto"), std::string::npos);
  }
}

}  // namespace
}  // namespace vaecf::cuda
