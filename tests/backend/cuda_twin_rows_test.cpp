// How batches are gathered from users' rows in the device's memory and in the host's, on the twin of a GPU:
// see tests/support/cuda_twin.
#include <gtest/gtest.h>
#include <vaecf/backend/cuda/device.hpp>
#include <vaecf/base/error.hpp>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace vaecf::cuda {
namespace {

constexpr std::int64_t first_user = 4000;
using Numbers = std::vector<std::int64_t>;

/// User r holds r % 7 items, spread over all of them, the last item among them.
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

/// All of one user.
Csr one_row(std::int64_t entries) {
  return {{0, entries}, std::vector<std::int32_t>(static_cast<std::size_t>(entries), 1)};
}

Numbers shuffled(std::int64_t n, std::int64_t stride) {
  Numbers rows;
  for (std::int64_t i = 0; i < n; ++i) rows.push_back(i * stride % n);
  return rows;
}

backend::BackendOptions options(Toggle resident) {
  return {.device = backend::DeviceChoice::cuda, .precision = backend::Precision::fp32, .resident = resident};
}

/// A source with an order of batches, on a backend of its own.
struct Reader {
  Reader(Toggle resident, const Csr& all, std::int64_t item_count)
      : backend(options(resident), 0),
        rows(all),
        items(item_count),
        held(backend.hold_rows(Csr(all).view(), first_user, items)),  // which keeps a copy
        order(backend.make_batch_order()),
        step(backend.make_step_state()),
        batch(backend.make_batch()) {}

  void set_order(Numbers chosen, Numbers bounds) {
    backend.set_batch_order(*held, chosen, bounds, *order);
    plan = std::move(chosen);
    begin = std::move(bounds);
  }
  void begin_step(std::int64_t t) {
    backend::StepNumbers numbers;
    numbers.batch = t;
    backend.begin_step(numbers, *step);
  }
  void gather(std::int64_t t, std::int64_t users) {
    begin_step(t);
    backend.gather_step(*held, *order, *step, users, *batch);
  }
  Numbers rows_of(std::int64_t t) const {
    return {plan.begin() + begin[static_cast<std::size_t>(t)],
            plan.begin() + begin[static_cast<std::size_t>(t) + 1]};
  }
  std::unique_ptr<Graph> record() {
    begin_step(0);
    return backend.record([&] { backend.gather_step(*held, *order, *step, order->users(0), *batch); });
  }
  bool replay(Graph& recording, std::int64_t t) {
    begin_step(t);
    if (!backend.replay(recording)) return false;
    expect_content(*batch, rows_of(t), true);
    return true;
  }
  void expect(std::int64_t t) {
    SCOPED_TRACE(t);
    gather(t, order->users(t));
    expect_content(*batch, rows_of(t), true);
  }

  void expect_content(const Batch& b, const Numbers& chosen, bool transpose) {
    backend.synchronize();
    std::vector<std::uint32_t> numbers;
    std::vector<std::int32_t> columns;
    Numbers offsets{0};
    std::vector<std::vector<std::uint32_t>> users(static_cast<std::size_t>(items));
    for (const std::int64_t row : chosen) {
      for (const std::int32_t item : rows.view().row(row)) {
        columns.push_back(item);
        users[static_cast<std::size_t>(item)].push_back(static_cast<std::uint32_t>(numbers.size()));
      }
      numbers.push_back(static_cast<std::uint32_t>(first_user + row));
      offsets.push_back(static_cast<std::int64_t>(columns.size()));
    }
    EXPECT_TRUE(std::equal(numbers.begin(), numbers.end(), b.user_numbers.data()));
    EXPECT_TRUE(std::equal(offsets.begin(), offsets.end(), b.offsets.data()));
    EXPECT_TRUE(std::equal(columns.begin(), columns.end(), b.columns.data()));
    ASSERT_EQ(b.has_transpose, transpose);
    if (!transpose) return;
    std::int64_t at = 0;
    for (std::size_t i = 0; i < users.size(); ++i) {
      ASSERT_EQ(b.item_begin.data()[i], at);
      ASSERT_TRUE(std::equal(users[i].begin(), users[i].end(), b.item_users.data() + at)) << i;
      at += static_cast<std::int64_t>(users[i].size());
    }
    EXPECT_EQ(b.item_begin.data()[items], at);
  }

  Device backend;
  const Csr& rows;
  std::int64_t items;
  std::unique_ptr<UserRows> held;
  std::unique_ptr<BatchOrder> order;
  std::unique_ptr<StepState> step;
  std::unique_ptr<Batch> batch;
  Numbers plan, begin;
};

class CudaTwinRows : public ::testing::TestWithParam<Toggle> {};
INSTANTIATE_TEST_SUITE_P(Resident, CudaTwinRows, ::testing::Values(Toggle::on, Toggle::off),
                         [](const auto& place) { return to_string(place.param); });

TEST_P(CudaTwinRows, BatchesHoldTheirUsersItems) {
  for (const std::int64_t items : {1, 50, 65536, 65537, 70001}) {
    SCOPED_TRACE(items);
    const Csr rows = make_rows(200, items);
    Reader reader(GetParam(), rows, items);
    for (const std::int64_t stride : {7, 11}) {
      reader.set_order(shuffled(200, stride), {0, 40, 80, 81, 81, 121, 150});
      for (const std::int64_t t : {0, 1, 1, 5, 4, 3, 2}) reader.expect(t);
    }
    for (const std::int64_t users : {1, 30, 200, 2}) {
      reader.set_order(shuffled(200, 7), {0, users, 200});
      reader.expect(0);
      reader.expect(1);
    }
    // Rows named by the host, while what came before has not run: the twin is lazy.
    const auto other = reader.backend.make_batch();
    for (const std::int64_t stride : {3, 9}) {
      reader.backend.gather_batch(*reader.held, shuffled(200, stride), false, *other);
    }
    // A new order leaves a batch of the old one alone.
    const Numbers chosen = reader.rows_of(1);
    reader.set_order(shuffled(200, 11), {0, 200});
    reader.expect_content(*reader.batch, chosen, true);
    reader.expect_content(*other, shuffled(200, 9), false);
  }
}

TEST_P(CudaTwinRows, RecordingsEndWhereAnOrderOutgrowsThem) {
  const Csr rows = make_rows(2000, 50);
  Reader reader(GetParam(), rows, 50);
  // Users 0, 7, 14 .. have no items at all.
  Numbers sparse = shuffled(2000, 1);
  std::stable_partition(sparse.begin(), sparse.end(), [](std::int64_t row) { return row % 7 < 3; });
  sparse.resize(1400);
  reader.set_order(sparse, {0, 700, 700});
  const auto recording = reader.record();
  EXPECT_TRUE(reader.replay(*recording, 0));
  // Other rows, hardly more in them: they fit.
  std::reverse(sparse.begin(), sparse.begin() + 700);
  reader.set_order(sparse, {0, 700, 700});
  EXPECT_TRUE(reader.replay(*recording, 0));
  // The heavy ones do not.
  Numbers heavy = shuffled(2000, 1);
  std::stable_partition(heavy.begin(), heavy.end(), [](std::int64_t row) { return row % 7 > 3; });
  heavy.resize(1400);
  reader.set_order(heavy, {0, 700, 1400});
  EXPECT_FALSE(reader.replay(*recording, 0));
  const auto again = reader.record();
  EXPECT_TRUE(reader.replay(*again, 1));
  EXPECT_TRUE(reader.replay(*again, 0));
  // Nor does an order of more users.
  reader.set_order(shuffled(2000, 3), {0, 700, 1400});
  EXPECT_FALSE(reader.replay(*again, 0));
}

TEST_P(CudaTwinRows, RowsThatAreNotThereAreRefused) {
  const Csr rows = make_rows(20, 50);
  Reader reader(GetParam(), rows, 50);
  EXPECT_THROW(reader.set_order({0, 20}, {0, 2}), std::out_of_range);
  EXPECT_THROW(reader.set_order({0, -1}, {0, 2}), std::out_of_range);
  EXPECT_THROW(reader.set_order({0, 1}, {0, 3}), std::out_of_range);
  EXPECT_THROW(reader.set_order({0, 1}, {2, 0}), std::out_of_range);
  EXPECT_THROW(reader.backend.gather_batch(*reader.held, Numbers{20}, false, *reader.batch),
               std::out_of_range);
  reader.set_order({0, 1}, {0, 2});
  EXPECT_THROW(reader.gather(-1, 2), std::logic_error);
  EXPECT_THROW(reader.gather(1, 2), std::logic_error);
  EXPECT_THROW(reader.gather(0, 1), std::logic_error);
  reader.expect(0);
  reader.set_order({}, {});
  EXPECT_EQ(reader.order->batches(), 0);
  EXPECT_THROW(reader.gather(0, 0), std::logic_error);
}

TEST_P(CudaTwinRows, ItemsThatAreNoneAreRefused) {
  Device backend(options(GetParam()), 0);
  for (const std::int32_t item : {50, -1, 70000}) {
    Csr rows = make_rows(200, 50);
    rows.columns[300] = item;
    EXPECT_THROW(backend.hold_rows(rows.view(), first_user, 50), InputError);
  }
}

TEST_P(CudaTwinRows, WithoutUsersOrItemsHeld) {
  const Csr none;
  Reader nobody(GetParam(), none, 50);
  nobody.set_order({}, {0, 0});
  nobody.expect(0);
  Csr empty;
  empty.offsets.assign(11, 0);
  Reader idle(GetParam(), empty, 50);
  idle.set_order(shuffled(10, 3), {0, 4, 10});
  idle.expect(0);
  idle.expect(1);
}

TEST(CudaTwinRowsPlace, LongRowsComeInPieces) {
  Csr rows = one_row(2300000);
  for (std::size_t k = 0; k < rows.columns.size(); ++k)
    rows.columns[k] = static_cast<std::int32_t>(k * 7919 % 50000);
  Device backend(options(Toggle::on), 0);
  const auto held = backend.hold_rows(rows.view(), first_user, 50000);
  backend.synchronize();
  std::int64_t wrong = 0;
  for (std::size_t k = 0; k < rows.columns.size(); ++k)
    wrong += held->ids()[static_cast<std::int64_t>(k)] != rows.columns[k] ? 1 : 0;
  EXPECT_EQ(wrong, 0);
}

TEST(CudaTwinRowsPlace, StayOnTheHostWhereTheyDoNotFit) {
  const auto place = [&](Toggle resident, std::int64_t entries) {
    // The twin with number n has n MiB, of which a quarter is kept free.
    Device backend(options(resident), 1);
    return backend.hold_rows(one_row(entries << 10).view(), 0, 50)->description();
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
    FAIL() << "more than there is";
  } catch (const RunError& error) {
    EXPECT_NE(std::string(error.what()).find("1.2 MiB are needed and 1.0 MiB free; set it to auto or off"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace vaecf::cuda
