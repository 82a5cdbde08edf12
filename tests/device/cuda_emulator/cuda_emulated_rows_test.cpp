// Location of users' rows, validation of rows, and the batch orders that fit a captured graph, in host
// emulation; see tests/support/cuda_emulator.
#include <gtest/gtest.h>
#include <vaecf/base/error.hpp>
#include <vaecf/device/cuda/device.hpp>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

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
    device_.set_batch_schedule(*held, rows, Numbers{0, 700, end}, *schedule);
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
    device_.set_batch_schedule(*held, rows, begin, *schedule);
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
