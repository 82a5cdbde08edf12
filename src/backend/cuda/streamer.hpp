#pragma once

#include <vaecf/base/views.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "storage.hpp"

namespace vaecf::cuda {

/// Bytes of item ids: 16 bits each where all items fit.
inline std::int64_t id_bytes(std::int64_t items) {
  return items <= 65536 ? 2 : 4;
}

/// Writes the ids of `from` to `to`, as wide as `Id`. InputError for one that is no item.
template <class Id>
void copy_ids(std::span<const std::int32_t> from, std::int64_t items, Id* to);

/// Rows of an epoch in the order of their batches.
struct Plan {
  std::vector<std::int64_t> rows;      // of all batches, back to back
  std::vector<std::int64_t> begin{0};  // (batches + 1)
  std::int64_t max_users = 0;          // of any batch
  std::int64_t max_entries = 0;

  std::int64_t batches() const { return static_cast<std::int64_t>(begin.size()) - 1; }
  std::span<const std::int64_t> batch(std::int64_t t) const {
    return std::span(rows).subspan(static_cast<std::size_t>(begin[t]),
                                   static_cast<std::size_t>(begin[t + 1] - begin[t]));
  }
};

/// Rows that stay on the host, copied to the device batch by batch. While the device computes on a batch, a
/// thread of its own cuts the one that follows in the plan into pinned memory and copies it beside compute,
/// in a queue of its own: two slots, one being read and one being filled. Whatever is asked for out of turn
/// is cut at once.
class Streamer {
 public:
  /// A batch on the device, for what a queue is given before `read`.
  struct Cut {
    std::int64_t users = 0;
    std::int64_t entries = 0;
    const std::int64_t* offsets = nullptr;        // (users + 1)
    const std::uint32_t* user_numbers = nullptr;  // (users)
    ItemIds ids;                                  // (entries)
  };

  Streamer(Device& device, CsrView view, std::int64_t first_user, std::int64_t items);
  ~Streamer();
  Streamer(const Streamer&) = delete;
  Streamer& operator=(const Streamer&) = delete;

  /// Starts on the first batch of `plan`, which is likely to be asked for next.
  void follow(std::shared_ptr<const Plan> plan, const std::function<void()>& check);
  /// Batch `t` of `plan`, for what follows in `queue`, always the same one. Errors of the thread come out
  /// here.
  Cut take(std::shared_ptr<const Plan> plan, std::int64_t t, Queue& queue,
           const std::function<void()>& check);
  /// The same of any rows.
  Cut take(std::span<const std::int64_t> rows, Queue& queue, const std::function<void()>& check);
  /// Must follow `take` once the queue has been given all that reads the batch. Starts on the next one.
  void read(Queue& queue);

  /// Batches that were there before they were asked for.
  std::int64_t prefetched() const { return prefetched_; }

 private:
  /// What a batch is cut into: offsets, user numbers and ids in one piece, so that one copy moves it.
  struct Slot {
    PinnedArray<std::byte> pinned;
    DeviceArray<std::byte> device;
    Event copied;  // `pinned` may be written again
    Event read;    // `device` may be
    std::shared_ptr<const Plan> plan;
    std::int64_t batch = -1;  // of `plan`
    std::int64_t users = 0;
    std::int64_t entries = 0;
    std::exception_ptr error;
  };

  std::int64_t users_at(std::int64_t users) const;
  std::int64_t ids_at(std::int64_t users) const;
  std::int64_t entries_of(std::span<const std::int64_t> rows) const;
  void reserve(Slot& slot, std::int64_t users, std::int64_t entries);
  std::int64_t fill(std::span<const std::int64_t> rows, Slot& slot) const;
  Cut cut_of(Slot& slot) const;
  Cut cut_now(std::span<const std::int64_t> rows, Queue& queue, const std::function<void()>& check);
  void prefetch(std::shared_ptr<const Plan> plan, std::int64_t t);
  void wait_until_idle(const std::function<void()>& check);
  void run(std::stop_token stop);
  void serve(Slot& slot, const std::stop_token& stop);

  Device& device_;
  CsrView view_;
  std::int64_t first_user_;
  std::int64_t items_;
  Queue copies_;
  Slot slots_[2];
  int current_ = 0;                   // the slot taken last; the thread fills the other one
  std::shared_ptr<const Plan> plan_;  // of the batch taken last; null: none
  std::int64_t batch_ = 0;
  std::int64_t prefetched_ = 0;

  // Shared with the thread: it owns the other slot, and may use `copies_`, while it is busy.
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool busy_ = false;
  std::jthread thread_;
};

}  // namespace vaecf::cuda
