// Location of users' rows, validation of rows, and the batch orders that fit a captured graph, in host
// emulation; see tests/support/cuda_emulator.
#include <gtest/gtest.h>
#include <vaecf/base/error.hpp>
#include <vaecf/device/cuda/device.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/cuda/tune.hpp"

namespace vaecf::cuda {
namespace {

using Numbers = std::vector<std::int64_t>;

/// Makes rows in which user r has r % 7 items, spread over all items including the last one.
Csr make_rows(std::int64_t users, std::int64_t items) {
  Csr rows;
  for (std::int64_t user = 0; user < users; ++user) {
    std::vector<std::int32_t> held;
    for (std::int64_t k = 0; k < user % 7; ++k) {
      held.push_back(static_cast<std::int32_t>(items - 1 - (user * 131 + k * k * 977) % items));
    }
    std::sort(held.begin(), held.end());
    held.erase(std::unique(held.begin(), held.end()), held.end());
    rows.columns.insert(rows.columns.end(), held.begin(), held.end());
    rows.offsets.push_back(static_cast<std::int64_t>(rows.columns.size()));
  }
  return rows;
}

/// Makes a single row with `entries` entries.
Csr one_row(std::int64_t entries, std::int32_t items = 2) {
  Csr rows{{0, entries}, {}};
  for (std::int64_t k = 0; k < entries; ++k) {
    rows.columns.push_back(static_cast<std::int32_t>((k * 7919 + 1) % items));
  }
  return rows;
}

Numbers counted(std::int64_t n) {
  Numbers rows;
  for (std::int64_t i = 0; i < n; ++i) rows.push_back(i);
  return rows;
}

device::BackendOptions options(Toggle resident) {
  return {.device = device::DeviceChoice::cuda, .precision = device::Precision::fp32, .resident = resident};
}

class CudaEmulatedRows : public ::testing::TestWithParam<Toggle> {
 protected:
  std::unique_ptr<UserRows> hold(const Csr& rows, std::int64_t items) {
    return device_.make_user_rows(Csr(rows).view(), 4000, items);  // it makes a copy
  }
  void expect_held(const Csr& rows, std::int64_t items) {
    SCOPED_TRACE(items);
    const auto held = hold(rows, items);
    device_.synchronize();
    std::int64_t wrong = 0;
    for (std::size_t k = 0; k < rows.columns.size(); ++k) {
      wrong += held->ids()[static_cast<std::int64_t>(k)] != rows.columns[k] ? 1 : 0;
    }
    EXPECT_EQ(wrong, 0);
  }

  Device device_{options(GetParam()), 0};
};
INSTANTIATE_TEST_SUITE_P(Resident, CudaEmulatedRows, ::testing::Values(Toggle::on, Toggle::off),
                         [](const auto& place) { return to_string(place.param); });

TEST_P(CudaEmulatedRows, StoreIdsOfBothWidthsAcrossStagingChunks) {
  for (const std::int64_t items : {1, 50, 65536, 65537, 70001}) expect_held(make_rows(200, items), items);
  expect_held(one_row(2300000, 50000), 50000);
}

TEST_P(CudaEmulatedRows, GraphsAreInvalidatedByALargerOrder) {
  const auto held = hold(make_rows(2000, 50), 50);
  const auto schedule = device_.make_batch_schedule();
  const auto step = device_.make_step_state();
  const auto batch = device_.make_batch();
  const auto set_order = [&](const Numbers& rows, std::int64_t end = 1400) {
    device_.upload_batch_schedule(*held, rows, Numbers{0, 700, end}, *schedule);
    device_.start_batch_schedule(*held, *schedule);
  };
  const auto record = [&] {
    device_.begin_step({}, *step);
    return device_.capture([&] { device_.gather_scheduled_batch(*held, *schedule, *step, 700, *batch); });
  };
  // Users 0, 7, 14 .. have no items.
  Numbers sparse = counted(2000);
  std::stable_partition(sparse.begin(), sparse.end(), [](std::int64_t row) { return row % 7 < 3; });
  sparse.resize(1400);
  set_order(sparse, 700);
  const auto recording = record();
  EXPECT_TRUE(device_.is_valid(*recording));
  // Other rows with about as many entries: they fit.
  std::reverse(sparse.begin(), sparse.begin() + 700);
  set_order(sparse, 700);
  EXPECT_TRUE(device_.replay(*recording));
  // Rows with many entries do not fit.
  Numbers heavy = counted(2000);
  std::stable_partition(heavy.begin(), heavy.end(), [](std::int64_t row) { return row % 7 > 3; });
  heavy.resize(1400);
  set_order(heavy);
  EXPECT_FALSE(device_.replay(*recording));
  const auto again = record();
  EXPECT_TRUE(device_.replay(*again));
  // An order with more users does not fit either.
  set_order(counted(2000));
  EXPECT_FALSE(device_.replay(*again));
  device_.synchronize();
}

TEST_P(CudaEmulatedRows, RowsOutOfRangeThrow) {
  const auto held = hold(make_rows(20, 50), 50);
  const auto schedule = device_.make_batch_schedule();
  const auto step = device_.make_step_state();
  const auto batch = device_.make_batch();
  const auto set_order = [&](const Numbers& rows, const Numbers& begin) {
    device_.upload_batch_schedule(*held, rows, begin, *schedule);
    device_.start_batch_schedule(*held, *schedule);
  };
  const auto gather = [&](std::int64_t t, std::int64_t users) {
    device::StepParams params;
    params.batch = t;
    device_.begin_step(params, *step);
    device_.gather_scheduled_batch(*held, *schedule, *step, users, *batch);
  };
  EXPECT_THROW(set_order({0, 20}, {0, 2}), std::out_of_range);
  EXPECT_THROW(set_order({0, -1}, {0, 2}), std::out_of_range);
  EXPECT_THROW(set_order({0, 1}, {0, 3}), std::out_of_range);
  EXPECT_THROW(set_order({0, 1}, {2, 0}), std::out_of_range);
  EXPECT_THROW(device_.gather_batch(*held, Numbers{20}, false, *batch), std::out_of_range);
  set_order({0, 1}, {0, 2});
  EXPECT_THROW(gather(-1, 2), std::logic_error);
  EXPECT_THROW(gather(1, 2), std::logic_error);
  EXPECT_THROW(gather(0, 1), std::logic_error);
  EXPECT_NO_THROW(gather(0, 2));
  set_order({}, {});
  EXPECT_EQ(schedule->batches(), 0);
  EXPECT_THROW(gather(0, 0), std::logic_error);
}

TEST_P(CudaEmulatedRows, ItemsOutOfRangeThrow) {
  for (const std::int32_t item : {50, -1, 70000}) {
    Csr rows = make_rows(200, 50);
    rows.columns[300] = item;
    EXPECT_THROW(hold(rows, 50), InputError);
  }
}

/// Batches by windows, compared with those that are gathered and sorted one by one.
class CudaEmulatedWindows : public ::testing::Test {
 protected:
  static constexpr std::int64_t items = 50;

  CudaEmulatedWindows() {
    plain_ = device_.make_batch_schedule();
    tune().window = 1;
    windowed_ = device_.make_batch_schedule();
    tune().window = 0;
  }

  void set_order(const Numbers& rows, const Numbers& begin) {
    device_.upload_batch_schedule(*held_, rows, begin, *plain_);
    device_.start_batch_schedule(*held_, *plain_);
    device_.upload_batch_schedule(*held_, rows, begin, *windowed_);
    device_.start_batch_schedule(*held_, *windowed_);
  }
  std::int64_t windows() const { return std::ssize(windowed_->windows.begin) - 1; }

  void begin(std::int64_t t) {
    device_.prepare_batch(*held_, *windowed_, t);
    device_.begin_step({0, 0, t, 0.0F, {}}, *step_);
  }
  void gather(const BatchSchedule& schedule, std::int64_t t, Batch& batch) {
    device_.gather_scheduled_batch(*held_, schedule, *step_, schedule.users(t), batch);
  }
  void expect_equal(std::int64_t t) {
    SCOPED_TRACE(t);
    gather(*plain_, t, *expected_);
    device_.synchronize();
    const std::int64_t users = plain_->users(t);
    const std::int64_t entries = expected_->offsets.data()[users];
    const auto same = [](const auto& a, const auto& b, std::int64_t size) {
      return std::equal(a.data(), a.data() + size, b.data());
    };
    EXPECT_EQ(found_->items, expected_->items);
    EXPECT_EQ(found_->max_entries, expected_->max_entries);
    EXPECT_TRUE(found_->has_transpose);
    EXPECT_TRUE(same(found_->user_numbers, expected_->user_numbers, users));
    EXPECT_TRUE(same(found_->offsets, expected_->offsets, users + 1));
    EXPECT_TRUE(same(found_->columns, expected_->columns, entries));
    EXPECT_TRUE(same(found_->item_begin, expected_->item_begin, items + 1));
    EXPECT_TRUE(same(found_->item_users, expected_->item_users, entries));
  }

  Device device_{options(Toggle::on), 0};
  std::unique_ptr<UserRows> held_ = device_.make_user_rows(make_rows(2000, items).view(), 4000, items);
  std::unique_ptr<StepState> step_ = device_.make_step_state();
  std::unique_ptr<Batch> expected_ = device_.make_batch();
  std::unique_ptr<Batch> found_ = device_.make_batch();
  std::unique_ptr<BatchSchedule> plain_, windowed_;
};

// One batch is empty, one has no entries, and the last one is smaller.
TEST_F(CudaEmulatedWindows, EqualBatchesSortedOneByOne) {
  Numbers rows;
  for (std::int64_t i = 0; i < 900; ++i) rows.push_back(i * 11 % 1999);
  for (std::int64_t i = 300; i < 600; ++i) rows[static_cast<std::size_t>(i)] = 7 * (i - 300) % 1995;
  const Numbers begin_rows{0, 300, 600, 600, 850, 900};
  struct Limits {
    std::int64_t entries, item_offsets, windows;
  };
  const Limits limits[] = {{1 << 20, 1 << 20, 1}, {1 << 20, 3 * items, 2}, {1 << 20, 2 * items, 3},
                           {1 << 20, 1, 5},       {1000, 1 << 20, 2},      {1, 1 << 20, 4}};
  for (const Limits& limit : limits) {
    windowed_->windows.max_entries = limit.entries;
    windowed_->windows.max_item_offsets = limit.item_offsets;
    SCOPED_TRACE(limit.entries);
    SCOPED_TRACE(limit.item_offsets);
    set_order(rows, begin_rows);
    EXPECT_EQ(windows(), limit.windows);
    // In order, and as after a resume within an epoch.
    for (const std::int64_t t : {0, 1, 2, 3, 4, 3, 1, 4, 0}) {
      begin(t);
      gather(*windowed_, t, *found_);
      EXPECT_EQ(found_->users(), plain_->users(t));
      expect_equal(t);
    }
    std::reverse(rows.begin(), rows.end());
  }
}

TEST_F(CudaEmulatedWindows, GraphsServeAllBatchesUntilAWindowGrows) {
  windowed_->windows.max_entries = 1900;
  std::map<std::int64_t, std::unique_ptr<Graph>> graphs;  // by number of users
  Numbers rows = counted(2000);
  const auto train_epoch = [&] {
    std::string steps;
    for (std::int64_t t = 0; t < windowed_->batches(); ++t) {
      auto& graph = graphs[windowed_->users(t)];
      begin(t);
      const bool replayed = graph && device_.replay(*graph);
      if (!replayed) graph = device_.capture([&] { gather(*windowed_, t, *found_); });
      steps += replayed ? '>' : 'o';
      device_.synchronize();
      // The batch to compare with is gathered when the graph has run.
      expect_equal(t);
    }
    return steps;
  };
  const Numbers begin_rows{0, 300, 600, 900, 1200, 1300};
  set_order(rows, begin_rows);
  EXPECT_EQ(windows(), 3);
  train_epoch();
  std::reverse(rows.begin(), rows.end());
  set_order(rows, begin_rows);
  EXPECT_EQ(train_epoch(), ">>>>>");
  windowed_->windows.max_entries = 1 << 20;
  set_order(rows, begin_rows);
  EXPECT_EQ(windows(), 1);
  EXPECT_EQ(train_epoch(), "o>>>o");
}

TEST_F(CudaEmulatedWindows, UnpreparedBatchThrows) {
  windowed_->windows.max_entries = 1;
  set_order(counted(20), {0, 10, 20});
  device_.begin_step({0, 0, 0, 0.0F, {}}, *step_);
  EXPECT_THROW(gather(*windowed_, 0, *found_), std::logic_error);
  begin(0);
  EXPECT_NO_THROW(gather(*windowed_, 0, *found_));
  device_.begin_step({0, 0, 1, 0.0F, {}}, *step_);
  EXPECT_THROW(gather(*windowed_, 1, *found_), std::logic_error);
  EXPECT_THROW(device_.capture([&] { begin(1); }), std::logic_error);
}

TEST_F(CudaEmulatedWindows, RowsOnTheHostAreSortedBatchByBatch) {
  Device streaming(options(Toggle::off), 0);
  const auto held = streaming.make_user_rows(make_rows(20, items).view(), 0, items);
  tune().window = 1;
  const auto schedule = streaming.make_batch_schedule();
  tune().window = 0;
  streaming.upload_batch_schedule(*held, counted(20), Numbers{0, 10, 20}, *schedule);
  streaming.start_batch_schedule(*held, *schedule);
  EXPECT_TRUE(schedule->windows.begin.empty());
}

TEST(CudaEmulatedRowsPlacement, StayOnTheHostIfTheyDoNotFit) {
  const auto place = [&](Toggle resident, std::int64_t entries) {
    // The emulated GPU with index n has n MiB, of which a quarter is kept free.
    Device backend(options(resident), 1);
    return backend.make_user_rows(one_row(entries << 10).view(), 0, 50)->description();
  };
  EXPECT_EQ(place(Toggle::automatic, 150),
            "1 users, 153600 interactions in 16-bit ids, resident on the GPU: 0.3 MiB are needed and 1.0 MiB "
            "free");
  EXPECT_EQ(place(Toggle::automatic, 450),
            "1 users, 460800 interactions in 16-bit ids, read from the host: 0.9 MiB are needed and 1.0 MiB "
            "free");
  EXPECT_NE(place(Toggle::on, 450).find("resident on the GPU"), std::string::npos);
  EXPECT_EQ(place(Toggle::off, 150),
            "1 users, 153600 interactions in 16-bit ids, read from the host: backend.resident is off");
  try {
    place(Toggle::on, 600);
    FAIL() << "more memory than available";
  } catch (const RunError& error) {
    EXPECT_NE(std::string(error.what()).find("1.2 MiB are needed and 1.0 MiB free; set it to auto or off"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace vaecf::cuda
