#pragma once

#include <vaecf/base/timeline.hpp>
#include <vaecf/train/trainer.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace vaecf::train {

/// Hands the phases of a trainer's steps to a timeline. Without one it does nothing. With one, no step is
/// recorded as a whole and replayed, and on a device the host waits for it every so many steps.
class StepRecorder {
 public:
  StepRecorder(std::shared_ptr<Timeline> timeline, Engine& engine, const Trainer& trainer);
  /// A step is done.
  void step();
  /// Takes the laps now, as at the end of an epoch.
  void flush();
  /// Hands over laps that were read elsewhere.
  void add(const std::vector<model::StepLap>& laps);

 private:
  std::shared_ptr<Timeline> timeline_;
  Engine& engine_;
  const Trainer& trainer_;
  std::int64_t taken_;  // updates done at the last flush
};

}  // namespace vaecf::train
