#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace vaecf {

/// The stretches of a run, in the words that a user reads.
enum class Phase : std::int32_t {
  setup,
  loading,
  training,
  validation,
  checkpoint,
  test,
  benchmark,
  leaving
};

constexpr const char* to_string(Phase phase) {
  constexpr std::array<const char*, 8> names = {"setup",      "loading", "training",  "validation",
                                                "checkpoint", "testing", "benchmark", "leaving"};
  return names[static_cast<std::size_t>(phase)];
}

/// What this process is at: told by the thread that works, read by the one that watches whether ranks still
/// move. Telling costs next to nothing.
class Activity {
 public:
  struct Report {
    Phase phase = Phase::setup;
    std::int64_t step = 0;    ///< updates done before the one under way
    std::uint64_t beats = 0;  ///< grows with every sign of progress
  };

  void enter(Phase phase) noexcept {
    phase_.store(phase, std::memory_order_relaxed);
    progressed();
  }
  /// Step number `step` begins.
  void begin_step(std::int64_t step) noexcept {
    step_.store(step, std::memory_order_relaxed);
    progressed();
  }
  /// A sign of progress within a phase: a batch evaluated, a block read.
  void progressed() noexcept { beats_.fetch_add(1, std::memory_order_release); }

  Report report() const noexcept {
    const std::uint64_t beats = beats_.load(std::memory_order_acquire);
    return {phase_.load(std::memory_order_relaxed), step_.load(std::memory_order_relaxed), beats};
  }

 private:
  std::atomic<Phase> phase_ = Phase::setup;
  std::atomic<std::int64_t> step_ = 0;
  std::atomic<std::uint64_t> beats_ = 0;
};

}  // namespace vaecf
