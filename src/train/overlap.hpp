#pragma once

#include <vaecf/comm/communicator.hpp>

#include <array>
#include <cstdint>
#include <string>

namespace vaecf::train {

/// Whether the reduction of gradients runs beside backward. "auto" tries both ways in turn during the first
/// steps and keeps the faster one; it changes times, never results. A world of one has nothing to reduce.
class OverlapChoice {
 public:
  /// `mode`: auto | on | off.
  OverlapChoice(const std::string& mode, comm::Communicator& communicator);

  /// For the step about to run.
  bool use() const;
  /// `seconds` of the step that ran. Collective on the step that decides.
  void report(double seconds);

  bool decided() const { return decided_; }
  /// One line for the log.
  std::string description() const;

 private:
  static constexpr std::int64_t warm_up = 2;
  static constexpr std::int64_t trials = 8;  // half of them each way, alternating

  comm::Communicator& communicator_;
  bool on_ = false;
  bool decided_ = false;
  std::int64_t steps_ = 0;
  std::array<double, 2> best_;  // seconds of the fastest step without and with overlap
};

}  // namespace vaecf::train
