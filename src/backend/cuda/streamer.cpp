#include "streamer.hpp"

#include <vaecf/base/error.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "upload.hpp"

namespace vaecf::cuda {

template <class Id>
void copy_ids(std::span<const std::int32_t> from, std::int64_t items, Id* to) {
  // The device would read and write outside its tables.
  std::uint32_t outside = 0;
  for (std::size_t k = 0; k < from.size(); ++k) {
    outside |=
        static_cast<std::uint32_t>(static_cast<std::uint32_t>(from[k]) >= static_cast<std::uint64_t>(items));
    to[k] = static_cast<Id>(from[k]);
  }
  if (outside == 0) return;
  const auto bad =
      std::find_if(from.begin(), from.end(), [&](auto item) { return item < 0 || item >= items; });
  throw InputError("users' rows hold item " + std::to_string(*bad) + ", but there are " +
                   std::to_string(items) + " items: the dataset is damaged; prepare it anew");
}

template void copy_ids(std::span<const std::int32_t>, std::int64_t, std::uint16_t*);
template void copy_ids(std::span<const std::int32_t>, std::int64_t, std::uint32_t*);

Streamer::Streamer(Device& device, CsrView view, std::int64_t first_user, std::int64_t items)
    : device_(device), view_(view), first_user_(first_user), items_(items) {}

Streamer::~Streamer() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
}

void Streamer::follow(std::shared_ptr<const Plan> plan, const std::function<void()>& check) {
  wait_until_idle(check);
  prefetch(std::move(plan), 0);
}

Streamer::Cut Streamer::take(std::shared_ptr<const Plan> plan, std::int64_t t, Queue& queue,
                             const std::function<void()>& check) {
  wait_until_idle(check);
  plan_ = std::move(plan);
  batch_ = t;
  Slot& next = slots_[1 - current_];
  if (next.plan != plan_ || next.batch != t) return cut_now(plan_->batch(t), queue, check);
  if (next.error) {
    next.plan = nullptr;
    std::rethrow_exception(std::exchange(next.error, nullptr));
  }
  queue.wait_for(next.copied.native());
  current_ = 1 - current_;
  ++prefetched_;
  return cut_of(next);
}

Streamer::Cut Streamer::take(std::span<const std::int64_t> rows, Queue& queue,
                             const std::function<void()>& check) {
  wait_until_idle(check);
  plan_ = nullptr;
  return cut_now(rows, queue, check);
}

void Streamer::read(Queue& queue) {
  Slot& slot = slots_[current_];
  queue.record(slot.read);
  slot.plan = nullptr;  // the thread may be at it once more
  if (plan_ && batch_ + 1 < plan_->batches()) prefetch(plan_, batch_ + 1);
}

Streamer::Cut Streamer::cut_now(std::span<const std::int64_t> rows, Queue& queue,
                                const std::function<void()>& check) {
  Slot& slot = slots_[current_];
  slot.plan = nullptr;
  wait_on_host(slot.copied, check);
  reserve(slot, static_cast<std::int64_t>(rows.size()), entries_of(rows));
  const std::int64_t bytes = fill(rows, slot);
  // All that reads this slot is in `queue` already: no need to wait for it.
  queue.copy_in(slot.device.data(), slot.pinned.data(), bytes);
  queue.record(slot.copied);
  return cut_of(slot);
}

void Streamer::prefetch(std::shared_ptr<const Plan> plan, std::int64_t t) {
  Slot& slot = slots_[1 - current_];
  if (t >= plan->batches() || (slot.plan == plan && slot.batch == t && !slot.error)) return;
  // Here and not in the thread: memory is this thread's business.
  reserve(slot, plan->max_users, plan->max_entries);
  slot.plan = std::move(plan);
  slot.batch = t;
  slot.error = nullptr;
  {
    const std::lock_guard lock(mutex_);
    busy_ = true;
  }
  if (!thread_.joinable()) {
    thread_ = std::jthread([this](std::stop_token stop) { run(std::move(stop)); });
  }
  changed_.notify_all();
}

void Streamer::wait_until_idle(const std::function<void()>& check) {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::milliseconds(20), [this] { return !busy_; })) {
    lock.unlock();
    if (check) check();
    lock.lock();
  }
}

void Streamer::run(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return busy_; })) {
    lock.unlock();
    Slot& slot = slots_[1 - current_];
    try {
      serve(slot, stop);
    } catch (...) {
      slot.error = std::current_exception();
    }
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void Streamer::serve(Slot& slot, const std::stop_token& stop) {
  device_.use();
  wait_on_host(slot.copied, [&stop] {
    if (stop.stop_requested()) throw RunError("the copy ahead was given up");
  });
  const std::int64_t bytes = fill(slot.plan->batch(slot.batch), slot);
  copies_.wait_for(slot.read.native());
  copies_.copy_in(slot.device.data(), slot.pinned.data(), bytes);
  copies_.record(slot.copied);
}

std::int64_t Streamer::users_at(std::int64_t users) const {
  return (users + 1) * static_cast<std::int64_t>(sizeof(std::int64_t));
}

std::int64_t Streamer::ids_at(std::int64_t users) const {
  return users_at(users) + users * static_cast<std::int64_t>(sizeof(std::uint32_t));
}

std::int64_t Streamer::entries_of(std::span<const std::int64_t> rows) const {
  std::int64_t entries = 0;
  for (const std::int64_t row : rows) entries += view_.row_size(row);
  return entries;
}

void Streamer::reserve(Slot& slot, std::int64_t users, std::int64_t entries) {
  const std::int64_t bytes = ids_at(users) + entries * id_bytes(items_);
  if (slot.device.size() >= bytes) return;
  slot.device = {};
  slot.device = DeviceArray<std::byte>(device_, bytes, "a batch on its way from the host");
  slot.pinned = PinnedArray<std::byte>(bytes);
}

/// Returns the bytes to copy.
std::int64_t Streamer::fill(std::span<const std::int64_t> rows, Slot& slot) const {
  slot.users = static_cast<std::int64_t>(rows.size());
  std::byte* begin = slot.pinned.data();
  auto* offsets = reinterpret_cast<std::int64_t*>(begin);
  auto* numbers = reinterpret_cast<std::uint32_t*>(begin + users_at(slot.users));
  std::byte* ids = begin + ids_at(slot.users);
  std::int64_t at = 0;
  for (std::size_t u = 0; u < rows.size(); ++u) {
    const auto items = view_.row(rows[u]);
    offsets[u] = at;
    numbers[u] = static_cast<std::uint32_t>(first_user_ + rows[u]);
    if (id_bytes(items_) == 2) {
      copy_ids(items, items_, reinterpret_cast<std::uint16_t*>(ids) + at);
    } else {
      copy_ids(items, items_, reinterpret_cast<std::uint32_t*>(ids) + at);
    }
    at += static_cast<std::int64_t>(items.size());
  }
  offsets[rows.size()] = at;
  slot.entries = at;
  return ids_at(slot.users) + at * id_bytes(items_);
}

Streamer::Cut Streamer::cut_of(Slot& slot) const {
  const std::byte* begin = slot.device.data();
  const std::byte* ids = begin + ids_at(slot.users);
  return {.users = slot.users,
          .entries = slot.entries,
          .offsets = reinterpret_cast<const std::int64_t*>(begin),
          .user_numbers = reinterpret_cast<const std::uint32_t*>(begin + users_at(slot.users)),
          .ids = id_bytes(items_) == 2 ? ItemIds(reinterpret_cast<const std::uint16_t*>(ids), nullptr)
                                       : ItemIds(nullptr, reinterpret_cast<const std::uint32_t*>(ids))};
}

}  // namespace vaecf::cuda
