// Location of users' rows, validation of rows, and the batch orders that fit a captured graph, in host
// emulation; see tests/support/cuda_emulator.
#include <vaecf/base/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/device.hpp"
#include "support/cuda_emulator/runtime.hpp"
#include "support/messages.hpp"

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

/// Returns `rows` with different values.
Csr weigh(Csr rows) {
  for (std::size_t k = 0; k < rows.columns.size(); ++k)
    rows.values.push_back(0.25F + static_cast<float>(k % 1009) / 64.0F);
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
  std::unique_ptr<device::UserRows> hold(const Csr& rows, std::int64_t items) {
    return device_.make_user_rows(Csr(rows).view(), 4000, items, device::single_rank());  // it makes a copy
  }
  void expect_held(const Csr& rows, std::int64_t items) {
    SCOPED_TRACE(items);
    const auto held = hold(rows, items);
    device_.synchronize();
    const auto& on_device = own<UserRows>(*held);
    ASSERT_EQ(on_device.values() != nullptr, !rows.values.empty());
    std::int64_t wrong = 0;
    for (std::size_t k = 0; k < rows.columns.size(); ++k) {
      const bool same = on_device.ids()[static_cast<std::int64_t>(k)] == rows.columns[k] &&
                        (rows.values.empty() || on_device.values()[k] == rows.values[k]);
      wrong += same ? 0 : 1;
    }
    EXPECT_EQ(wrong, 0);
  }

  /// Expects the batch to have the rows `users`, and their transpose.
  void expect_batch(const Csr& rows, std::span<const std::int64_t> users, std::int64_t items) {
    const Batch& batch = own<Batch>(*batch_);
    ASSERT_EQ(batch.entry_values() != nullptr, !rows.values.empty());
    ASSERT_EQ(batch.transpose_values() != nullptr, !rows.values.empty());
    std::map<std::int32_t, std::vector<std::pair<std::uint32_t, float>>> users_of;
    std::int64_t k = 0;
    for (std::size_t u = 0; u < users.size(); ++u) {
      const SparseRow row = rows.view().sparse_row(users[u]);
      float sum = 0.0F;
      for (std::size_t n = 0; n < row.columns.size(); ++n, ++k) {
        ASSERT_EQ(batch.columns.data()[k], row.columns[n]);
        ASSERT_EQ(value_at(batch.entry_values(), k), row.value(n));
        users_of[row.columns[n]].emplace_back(static_cast<std::uint32_t>(u), row.value(n));
        sum += row.value(n);
      }
      EXPECT_EQ(batch.totals.data()[u].sum, sum);
      EXPECT_EQ(batch.totals.data()[u].part, sum);
    }
    std::int64_t next = 0;
    for (std::int32_t item = 0; item < items; ++item) {
      ASSERT_EQ(batch.item_begin.data()[item], next);
      if (!users_of.contains(item)) continue;
      for (const auto& [user, value] : users_of.at(item)) {
        ASSERT_EQ(batch.item_users.data()[next], user);
        ASSERT_EQ(value_at(batch.transpose_values(), next), value);
        ++next;
      }
    }
    EXPECT_EQ(batch.item_begin.data()[items], next);
    EXPECT_EQ(next, k);
  }

  void set_order(const device::UserRows& held, const Numbers& rows, const Numbers& begin) {
    device_.upload_batch_schedule(held, rows, begin, *schedule_);
    device_.start_batch_schedule(held, *schedule_);
  }

  Device device_{options(GetParam()), 0};
  std::unique_ptr<device::BatchSchedule> schedule_ = device_.make_batch_schedule();
  std::unique_ptr<device::StepState> step_ = device_.make_step_state();
  std::unique_ptr<device::Batch> batch_ = device_.make_batch();
};
INSTANTIATE_TEST_SUITE_P(Resident, CudaEmulatedRows, ::testing::Values(Toggle::on, Toggle::off),
                         [](const auto& place) { return to_string(place.param); });

TEST_P(CudaEmulatedRows, StoreIdsOfBothWidthsAcrossStagingChunks) {
  for (const std::int64_t items : {1, 50, 65536, 65537, 70001}) {
    expect_held(make_rows(200, items), items);
    expect_held(weigh(make_rows(200, items)), items);
  }
  expect_held(one_row(2300000, 50000), 50000);
  expect_held(weigh(one_row(2300000, 50000)), 50000);
}

// Batches have capacity for more entries than the second one has, and ids of both widths. The batches without
// values reuse the memory of those with values.
TEST_P(CudaEmulatedRows, ValuesFollowTheirItemsIntoBatchesAndTransposes) {
  for (const std::int64_t items : {50, 70001}) {
    for (const bool weighted : {true, false, true}) {
      SCOPED_TRACE(::testing::Message()
                   << items << " items, " << (weighted ? "with" : "without") << " values");
      const Csr rows = weighted ? weigh(make_rows(300, items)) : make_rows(300, items);
      const auto held = hold(rows, items);
      Numbers order = counted(300);
      std::reverse(order.begin(), order.end());
      // Users 0, 7, 14 .. have no items, and the last batch has few.
      std::stable_partition(order.begin(), order.end(), [](std::int64_t row) { return row % 7 > 2; });
      set_order(*held, order, {0, 150, 300});
      for (const std::int64_t t : {1, 0}) {
        const auto users = std::span(order).subspan(static_cast<std::size_t>(150 * t), 150);
        for (const bool scheduled : {true, false}) {
          device::StepParams params;
          params.batch = t;
          device_.begin_step(params, *step_);
          if (scheduled)
            device_.gather_scheduled_batch(*held, *schedule_, *step_, 150, *batch_);
          else
            device_.gather_batch(*held, users, true, *batch_);
          device_.synchronize();
          expect_batch(rows, users, items);
        }
      }
    }
  }
}

TEST_P(CudaEmulatedRows, GraphsAreInvalidatedByALargerOrder) {
  const auto held = hold(make_rows(2000, 50), 50);
  const auto record = [&] {
    device_.begin_step({}, *step_);
    return device_.capture([&] { device_.gather_scheduled_batch(*held, *schedule_, *step_, 700, *batch_); });
  };
  // Users 0, 7, 14 .. have no items.
  Numbers sparse = counted(2000);
  std::stable_partition(sparse.begin(), sparse.end(), [](std::int64_t row) { return row % 7 < 3; });
  sparse.resize(1400);
  set_order(*held, sparse, {0, 700, 700});
  const auto recording = record();
  EXPECT_TRUE(device_.is_valid(*recording));
  // Other rows with about as many entries: they fit.
  std::reverse(sparse.begin(), sparse.begin() + 700);
  set_order(*held, sparse, {0, 700, 700});
  EXPECT_TRUE(device_.replay(*recording));
  // Rows with many entries do not fit.
  Numbers heavy = counted(2000);
  std::stable_partition(heavy.begin(), heavy.end(), [](std::int64_t row) { return row % 7 > 3; });
  heavy.resize(1400);
  set_order(*held, heavy, {0, 700, 1400});
  EXPECT_FALSE(device_.replay(*recording));
  const auto again = record();
  EXPECT_TRUE(device_.replay(*again));
  // An order with more users does not fit either.
  set_order(*held, counted(2000), {0, 700, 1400});
  EXPECT_FALSE(device_.replay(*again));
  device_.synchronize();
}

TEST_P(CudaEmulatedRows, RowsOutOfRangeThrow) {
  const auto held = hold(make_rows(20, 50), 50);
  const auto gather = [&](std::int64_t t, std::int64_t users) {
    device::StepParams params;
    params.batch = t;
    device_.begin_step(params, *step_);
    device_.gather_scheduled_batch(*held, *schedule_, *step_, users, *batch_);
  };
  EXPECT_THROW(set_order(*held, {0, 20}, {0, 2}), std::out_of_range);
  EXPECT_THROW(set_order(*held, {0, -2}, {0, 2}), std::out_of_range);
  EXPECT_THROW(set_order(*held, {0, 1}, {0, 3}), std::out_of_range);
  EXPECT_THROW(set_order(*held, {0, 1}, {2, 0}), std::out_of_range);
  EXPECT_THROW(device_.gather_batch(*held, Numbers{20}, false, *batch_), std::out_of_range);
  EXPECT_THROW(device_.gather_batch(*held, Numbers{-1}, false, *batch_), std::out_of_range);
  set_order(*held, {0, 1}, {0, 2});
  EXPECT_THROW(gather(-1, 2), std::logic_error);
  EXPECT_THROW(gather(1, 2), std::logic_error);
  EXPECT_THROW(gather(0, 1), std::logic_error);
  EXPECT_NO_THROW(gather(0, 2));
  set_order(*held, {}, {});
  EXPECT_EQ(schedule_->batches(), 0);
  EXPECT_THROW(gather(0, 0), std::logic_error);
}

TEST_P(CudaEmulatedRows, ItemsOutOfRangeThrow) {
  for (const std::int32_t item : {50, -1, 70000}) {
    Csr rows = make_rows(200, 50);
    rows.columns[300] = item;
    EXPECT_THROW(hold(rows, 50), InputError);
  }
}

/// The transpose of a scheduled batch, which is sorted beside the step.
class CudaEmulatedTranspose : public ::testing::Test {
 protected:
  static constexpr std::int64_t items = 50;
  static constexpr std::int64_t users = 300;

  CudaEmulatedTranspose() {
    device_.upload_batch_schedule(*held_, counted(2 * users), Numbers{0, users, 2 * users}, *schedule_);
    device_.start_batch_schedule(*held_, *schedule_);
  }

  void begin(std::int64_t t) { device_.begin_step({0, 0, t, 0.0F, {}}, *step_); }
  void gather(device::Batch& batch) {
    device_.gather_scheduled_batch(*held_, *schedule_, *step_, users, batch);
  }
  /// Runs the work of the device's stream, and only that of other streams for which it waits.
  void run_stream() {
    emulator::run_until_point(*static_cast<const emulator::Point*>(device_.record_event().event));
  }
  /// Returns whether the batch has the transpose of batch `t` of the schedule.
  bool is_transposed(std::int64_t t) const {
    Numbers begin{0};
    std::vector<std::uint32_t> item_users;
    std::vector<float> item_values;
    for (std::int32_t item = 0; item < items; ++item) {
      for (std::int64_t user = 0; user < users; ++user) {
        const SparseRow row = rows_.view().sparse_row(t * users + user);
        for (std::size_t k = 0; k < row.columns.size(); ++k) {
          if (row.columns[k] != item) continue;
          item_users.push_back(static_cast<std::uint32_t>(user));
          item_values.push_back(row.value(k));
        }
      }
      begin.push_back(std::ssize(item_users));
    }
    const Batch& batch = own<Batch>(*batch_);
    return std::ranges::equal(begin, std::span(batch.item_begin.data(), items + 1)) &&
           std::ranges::equal(item_users, std::span(batch.item_users.data(), item_users.size())) &&
           std::ranges::equal(item_values, std::span(batch.item_values.data(), item_values.size()));
  }

  Device device_{options(Toggle::on), 0};
  const Csr rows_ = weigh(make_rows(2 * users, items));
  std::unique_ptr<device::UserRows> held_ =
      device_.make_user_rows(rows_.view(), 4000, items, device::single_rank());
  std::unique_ptr<device::BatchSchedule> schedule_ = device_.make_batch_schedule();
  std::unique_ptr<device::StepState> step_ = device_.make_step_state();
  std::unique_ptr<device::Batch> batch_ = device_.make_batch();
  std::unique_ptr<device::Batch> other_ = device_.make_batch();
};

TEST_F(CudaEmulatedTranspose, PrecedesWhatMustNotRunBesideIt) {
  const std::pair<const char*, std::function<void()>> joins[] = {
      {"end of the step", [&] { device_.end_step(*step_); }},
      {"next step", [&] { begin(0); }},
      {"gather into the same batch", [&] { gather(*batch_); }},
      {"gather of given rows", [&] { device_.gather_batch(*held_, counted(9), true, *other_); }},
      {"synchronize", [&] { device_.synchronize(); }},
  };
  std::int64_t t = 0;
  for (const auto& [name, join] : joins) {
    SCOPED_TRACE(name);
    begin(t);
    gather(*batch_);
    run_stream();
    EXPECT_FALSE(is_transposed(t)) << "the sort is beside the stream";
    join();
    run_stream();
    EXPECT_TRUE(is_transposed(t));
    t = 1 - t;
  }
}

TEST_F(CudaEmulatedTranspose, IsPartOfAGraphWithoutTheEndOfTheStep) {
  begin(0);
  gather(*batch_);  // is pending when the capture begins
  const auto graph = device_.capture([&] { gather(*batch_); });
  for (const std::int64_t t : {1, 0}) {
    begin(t);
    ASSERT_TRUE(device_.replay(*graph));
    run_stream();
    EXPECT_TRUE(is_transposed(t));
  }
}

TEST_F(CudaEmulatedTranspose, IsForgottenByAFailedCapture) {
  begin(0);
  int calls = 0;
  const auto fails = [&] {
    gather(*batch_);
    if (++calls == 2) throw std::runtime_error("no");
  };
  EXPECT_THROW(device_.capture(fails), std::runtime_error);
  begin(1);
  gather(*batch_);
  device_.synchronize();
  EXPECT_TRUE(is_transposed(1));
}

TEST(CudaEmulatedRowsPlacement, StayOnTheHostIfTheyDoNotFit) {
  const auto place = [&](Toggle resident, std::int64_t entries) {
    // The emulated GPU with index n has n MiB, of which a quarter is kept free.
    Device backend(options(resident), 1);
    return backend.make_user_rows(one_row(entries << 10).view(), 0, 50, device::single_rank())->description();
  };
  EXPECT_EQ(place(Toggle::automatic, 150),
            "1 users, 153600 interactions in 16-bit ids, resident on the GPU: 0.3 MiB are needed and 1.0 MiB "
            "free");
  EXPECT_EQ(place(Toggle::automatic, 450),
            "1 users, 460800 interactions in 16-bit ids, read from the host: 0.9 MiB are needed and 1.0 MiB "
            "free");
  expect_in(place(Toggle::on, 450), {"resident on the GPU"});
  EXPECT_EQ(place(Toggle::off, 150),
            "1 users, 153600 interactions in 16-bit ids, read from the host: backend.resident is false");
  expect_in(message_of<RunError>([&] { place(Toggle::on, 600); }),
            {"1.2 MiB are needed and 1.0 MiB free; set it to auto or false"});
}

}  // namespace
}  // namespace vaecf::cuda
