#include "step_recorder.hpp"

#include <utility>

#include "step_phases.hpp"

namespace vaecf::train {
namespace {

constexpr std::int64_t steps_between_flushes = 64;

const char* name_of(double model::StepSeconds::*phase) {
  for (const StepPhase& known : step_phases) {
    if (known.seconds == phase) return known.name;
  }
  return "step";
}

}  // namespace

StepRecorder::StepRecorder(std::shared_ptr<Timeline> timeline, Engine& engine, const Trainer& trainer)
    : timeline_(std::move(timeline)), engine_(engine), trainer_(trainer), taken_(trainer.updates_done()) {
  if (timeline_) engine_.take_times(true);
}

void StepRecorder::step() {
  if (timeline_ && trainer_.updates_done() - taken_ >= steps_between_flushes) flush();
}

void StepRecorder::flush() {
  if (timeline_) add(engine_.laps());
}

void StepRecorder::add(const std::vector<model::StepLap>& laps) {
  if (!timeline_) return;
  for (const model::StepLap& lap : laps) {
    timeline_->add({name_of(lap.phase), Track::compute, timeline_->at(lap.begin), timeline_->at(lap.end),
                    "step", taken_ + lap.step + 1});
  }
  taken_ = trainer_.updates_done();
}

}  // namespace vaecf::train
