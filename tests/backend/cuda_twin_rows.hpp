#pragma once

#include <gtest/gtest.h>
#include <vaecf/base/error.hpp>

#include <algorithm>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/cuda/cuda_backend.hpp"

/// Users' rows on the twin, and what to compare them with.
namespace vaecf::cuda {

using backend::BackendOptions;

constexpr std::int64_t first_user = 4000;

/// User r holds r % 7 items, spread over all of them, the last item among them.
inline Csr make_rows(std::int64_t users, std::int64_t items) {
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

inline std::vector<std::int64_t> shuffled(std::int64_t n, std::int64_t stride) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < n; ++i) rows.push_back(i * stride % n);
  return rows;
}

inline backend::StepNumbers numbers_of(std::int64_t batch) {
  backend::StepNumbers numbers;
  numbers.batch = batch;
  return numbers;
}

/// What a batch holds, read where it lies once all work is done.
struct Content {
  std::vector<std::uint32_t> user_numbers;
  std::vector<std::int64_t> offsets;
  std::vector<std::int32_t> columns;
  std::vector<std::int64_t> item_begin;
  std::vector<std::uint32_t> item_users;
  bool operator==(const Content&) const = default;
};

template <class T>
std::vector<T> first_of(const DeviceArray<T>& array, std::int64_t n) {
  return {array.data(), array.data() + n};
}

inline Content content(CudaBackend& backend, const backend::Batch& batch) {
  backend.synchronize();
  const CudaBatch& b = gpu(batch);
  const std::int64_t entries = b.offsets.data()[b.users()];
  Content is{first_of(b.user_numbers, b.users()),
             first_of(b.offsets, b.users() + 1),
             first_of(b.columns, entries),
             {},
             {}};
  if (b.has_transpose) {
    is.item_begin = first_of(b.item_begin, b.items + 1);
    is.item_users = first_of(b.item_users, entries);
  }
  return is;
}

/// What it should hold.
inline Content expected(const Csr& rows, std::int64_t items, std::span<const std::int64_t> chosen,
                        bool transpose) {
  Content is;
  is.offsets = {0};
  for (const std::int64_t row : chosen) {
    const auto held = rows.view().row(row);
    is.user_numbers.push_back(static_cast<std::uint32_t>(first_user + row));
    is.columns.insert(is.columns.end(), held.begin(), held.end());
    is.offsets.push_back(static_cast<std::int64_t>(is.columns.size()));
  }
  if (!transpose) return is;
  std::vector<std::vector<std::uint32_t>> users(static_cast<std::size_t>(items));
  for (std::size_t u = 0; u < chosen.size(); ++u) {
    for (const std::int32_t item : rows.view().row(chosen[u])) {
      users[static_cast<std::size_t>(item)].push_back(static_cast<std::uint32_t>(u));
    }
  }
  is.item_begin = {0};
  for (const auto& of_item : users) {
    is.item_users.insert(is.item_users.end(), of_item.begin(), of_item.end());
    is.item_begin.push_back(static_cast<std::int64_t>(is.item_users.size()));
  }
  return is;
}

class CudaTwinRows : public ::testing::Test {
 protected:
  static BackendOptions options(const char* resident) {
    return {.device = "cuda", .precision = backend::Precision::fp32, .resident = resident};
  }
};

/// A source with an order of batches, on a backend of its own.
struct Reader {
  Reader(const char* resident, const Csr& all, std::int64_t item_count)
      : backend({.device = "cuda", .precision = backend::Precision::fp32, .resident = resident}, 0),
        rows(all),
        items(item_count),
        held(backend.hold_rows(all.view(), first_user, items)),
        order(backend.make_batch_order()),
        step(backend.make_step_state()),
        batch(backend.make_batch()) {}

  void follow(std::vector<std::int64_t> chosen, std::vector<std::int64_t> bounds) {
    backend.set_batch_order(*held, chosen, bounds, *order);
    plan = std::move(chosen);
    begin = std::move(bounds);
  }
  void gather(std::int64_t t) { gather(t, order->users(t)); }
  void gather(std::int64_t t, std::int64_t users) {
    backend.begin_step(numbers_of(t), *step);
    backend.gather_step(*held, *order, *step, users, *batch);
  }
  std::span<const std::int64_t> rows_of(std::int64_t t) const {
    return std::span(plan).subspan(static_cast<std::size_t>(begin[static_cast<std::size_t>(t)]),
                                   static_cast<std::size_t>(order->users(t)));
  }
  void expect(std::int64_t t) {
    gather(t);
    EXPECT_TRUE(content(backend, *batch) == vaecf::cuda::expected(rows, items, rows_of(t), true))
        << "batch " << t;
  }
  std::int64_t prefetched() const { return gpu(*held).streamer().prefetched(); }

  CudaBackend backend;
  const Csr& rows;
  std::int64_t items;
  std::unique_ptr<backend::UserRows> held;
  std::unique_ptr<backend::BatchOrder> order;
  std::unique_ptr<backend::StepState> step;
  std::unique_ptr<backend::Batch> batch;
  std::vector<std::int64_t> plan, begin;
};

const std::vector<std::int64_t> bounds = {0, 40, 80, 81, 81, 121, 150};

}  // namespace vaecf::cuda
