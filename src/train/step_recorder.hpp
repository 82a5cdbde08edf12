#pragma once

#include <vaecf/base/timeline.hpp>
#include <vaecf/train/trainer.hpp>

#include <cstdint>
#include <memory>

namespace vaecf::train {

/// Hands the phases of a trainer's steps to a timeline. Without one it does nothing. With one, no step is
/// recorded as a whole and replayed, and on a device the host waits for it every so many steps.
class StepRecorder {
 public:
  StepRecorder(std::shared_ptr<Timeline> timeline, Trainer& trainer);
  /// A step is done.
  void step();
  /// Now: at the end of an epoch.
  void flush();

 private:
  std::shared_ptr<Timeline> timeline_;
  Trainer& trainer_;
  std::int64_t taken_;  // updates done at the last flush
};

}  // namespace vaecf::train
