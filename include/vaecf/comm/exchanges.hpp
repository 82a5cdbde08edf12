#pragma once

#include <vaecf/base/timeline.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace vaecf::comm {

/// What this process does with other ranks: told by the communicator, in the thread that works; read by the
/// one that watches whether ranks still move. Telling costs next to nothing.
class Exchanges {
 public:
  struct Report {
    std::int64_t entered = 0;  ///< collectives, blocking or started: in the same order on all ranks
    std::uint64_t moves = 0;   ///< grows whenever one is entered, and when a wait begins or ends
    std::uint64_t looks = 0;   ///< grows while a wait is watched that other ranks may be the cause of
    bool waiting = false;      ///< inside a wait for other ranks
  };

  /// One wait of the host for other ranks.
  class Wait {
   public:
    /// `name`, a literal, is what a timeline calls it.
    explicit Wait(Exchanges& exchanges, const char* name = "wait")
        : exchanges_(exchanges), span_(exchanges.timeline_, Track::waiting, name) {
      exchanges_.turn(+1);
    }
    ~Wait() { exchanges_.turn(-1); }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    Exchanges& exchanges_;
    Timeline::Span span_;
  };

  /// From here on waits, and exchanges beside compute, go to `timeline` as well; null: nowhere. For the
  /// thread that works.
  void record_to(std::shared_ptr<Timeline> timeline) noexcept { timeline_ = std::move(timeline); }
  const std::shared_ptr<Timeline>& timeline() const noexcept { return timeline_; }

  /// A collective begins.
  void enter() noexcept {
    entered_.fetch_add(1, std::memory_order_relaxed);
    moves_.fetch_add(1, std::memory_order_release);
  }

  /// For a host that waits for its device, which may wait for other ranks: called all the time.
  void look() noexcept { looks_.fetch_add(1, std::memory_order_relaxed); }

  Report report() const noexcept {
    const std::uint64_t moves = moves_.load(std::memory_order_acquire);
    return {entered_.load(std::memory_order_relaxed), moves, looks_.load(std::memory_order_relaxed),
            waits_.load(std::memory_order_relaxed) > 0};
  }

 private:
  void turn(int by) noexcept {
    waits_.fetch_add(by, std::memory_order_relaxed);
    moves_.fetch_add(1, std::memory_order_release);
  }

  std::atomic<std::int64_t> entered_ = 0;
  std::atomic<std::uint64_t> moves_ = 0;
  std::atomic<std::uint64_t> looks_ = 0;
  std::atomic<int> waits_ = 0;
  std::shared_ptr<Timeline> timeline_;
};

}  // namespace vaecf::comm
