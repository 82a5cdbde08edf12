#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vaecf::train {

/// How far each worker is, and who may go on: the stale synchronous parallel of Ho et al. (NIPS 2013). A
/// worker may begin step k once every worker has pushed the gradients of all steps below k - staleness.
class RoundClocks {
 public:
  RoundClocks(int workers, std::int64_t staleness)
      : rounds_(static_cast<std::size_t>(workers)), waiting_(rounds_.size()), staleness_(staleness) {}

  /// All are about to push the gradient of step `round`.
  void start(std::int64_t round);
  /// `worker` has pushed the gradient of its step, and waits for the next one's weights. std::logic_error
  /// where it still waits for those of before.
  void pushed(int worker);
  /// Those that wait and may go on, lowest first; they wait no longer.
  std::vector<int> release();

  /// The step that `worker` pushes next.
  std::int64_t round(int worker) const { return rounds_[static_cast<std::size_t>(worker)]; }
  std::int64_t slowest() const;
  /// Most steps that one let go on was ahead of the slowest, since the last call.
  std::int64_t take_most_ahead();

 private:
  std::vector<std::int64_t> rounds_;
  std::vector<bool> waiting_;
  std::int64_t staleness_;
  std::int64_t most_ahead_ = 0;
};

}  // namespace vaecf::train
