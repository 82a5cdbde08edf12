#include <vaecf/device/cuda/device.hpp>

#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {
namespace {

struct BeginStep {
  static constexpr int threads = 32;
  static constexpr int scratch_bytes = 0;
  StepRecord* record;
  float* verdict;
  device::StepNumbers numbers;

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t, std::byte*) const {
    lanes.each(1, [&](std::int64_t) {
      record->numbers = numbers;
      record->nll = 0.0;
      record->kl = 0.0;
      record->users = 0;
      record->squares = 0.0;
      verdict[0] = 0.0F;
      verdict[1] = 0.0F;
    });
  }
};

struct EndStep {
  static constexpr int threads = 32;
  static constexpr int scratch_bytes = 0;
  StepRecord* record;
  const float* overflow;
  bool scaled;

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t, std::byte*) const {
    lanes.each(1, [&](std::int64_t) {
      device::LossSums& sums = record->sums;
      const bool skipped = *overflow > 0.0F;
      if (skipped) {
        ++sums.skipped;
      } else {
        if (sums.broken_step < 0 && !record->finite()) {
          sums.broken_step = record->numbers.step;
          sums.broken_nll = record->nll;
          sums.broken_kl = record->kl;
        }
        sums.nll += record->nll;
        sums.kl += record->kl;
        sums.weighted_kl += static_cast<double>(record->numbers.beta) * record->kl;
        sums.users += record->users;
      }
      if (scaled) move_scale(skipped, record->scale);
    });
  }

  VAECF_HD static void move_scale(bool skipped, device::LossScale& scale) {
    if (skipped) {
      // Far below any useful scale, and never zero.
      constexpr float smallest = 0x1p-24F;
      scale.scale = scale.scale > smallest ? 0.5F * scale.scale : smallest;
      scale.good_steps = 0;
    } else if (++scale.good_steps == device::LossScale::growth_interval) {
      const float doubled = 2.0F * scale.scale;
      scale.scale = doubled < device::LossScale::largest ? doubled : device::LossScale::largest;
      scale.good_steps = 0;
    }
  }
};

void wait_on_host(const Event& event) {
  for (int look = 0; !event.done(); ++look) {
    if (look < 100) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

/// Ends a failed capture. Ignores further errors, because the first one names the cause.
void abandon_capture(Queue& queue) noexcept {
  try {
    queue.end_capture();
  } catch (...) {
  }
}

}  // namespace

std::unique_ptr<StepState> Device::make_step_state() {
  auto step = std::make_unique<StepState>(gpu_);
  StepRecord start;
  if (precision_ == device::Precision::fp16) start.scale = device::LossScale();
  queue_.copy_in(step->record.data(), &start, sizeof start);
  return step;
}

void Device::begin_step(const device::StepNumbers& numbers, StepState& step) {
  const NvtxRange nvtx("step begins");
  if (queue_.capturing()) throw std::logic_error("begin_step: must not be captured");
  Event& begun = begun_[next_begun_];
  wait_on_host(begun);
  queue_.record(begun);
  next_begun_ = (next_begun_ + 1) % begun_.size();
  step.numbers = numbers;
  launch(queue_, 1, BeginStep{step.record.data(), step.verdict.data(), numbers});
}

FloatBuffer& Device::verdict(StepState& step) {
  return step.verdict;
}

void Device::end_step(StepState& step) {
  const NvtxRange nvtx("step ends");
  launch(queue_, 1, EndStep{step.record.data(), step.verdict.data(), precision_ == device::Precision::fp16});
}

void Device::clear_losses(StepState& step) {
  set_losses({}, step);
}

void Device::set_losses(const device::LossSums& sums, StepState& step) {
  const device::LossSums start = sums.unbroken();
  queue_.copy_in(&step.record.data()->sums, &start, sizeof start);
  // A pending read-back contains sums from before; its result is discarded.
  step.looking = false;
  step.has_looked = false;
}

device::LossSums Device::read_losses(StepState& step) {
  queue_.copy_out(step.look.data(), step.record.data(), sizeof(StepRecord));
  queue_.finish();
  step.looking = false;
  step.has_looked = true;
  step.last_look = step.look.data()->sums;
  return step.last_look;
}

std::optional<device::LossSums> Device::poll_losses(StepState& step) {
  if (step.looking && step.arrived.done()) {
    step.looking = false;
    step.has_looked = true;
    step.last_look = step.look.data()->sums;
  }
  if (!step.looking) {
    queue_.copy_out(step.look.data(), step.record.data(), sizeof(StepRecord));
    queue_.record(step.arrived);
    step.looking = true;
  }
  if (!step.has_looked) return std::nullopt;
  return step.last_look;
}

device::LossScale Device::loss_scale(StepState& step) {
  queue_.copy_out(step.look.data(), step.record.data(), sizeof(StepRecord));
  queue_.finish();
  return step.look.data()->scale;
}

void Device::set_loss_scale(device::LossScale scale, StepState& step) {
  // Only fp16 gradients are scaled.
  if (precision_ != device::Precision::fp16) return;
  queue_.copy_in(&step.record.data()->scale, &scale, sizeof scale);
}

std::unique_ptr<Graph> Device::record(const std::function<void()>& work) {
  if (queue_.capturing()) throw std::logic_error("record: captures cannot be nested");
  work();
  if (options_.graph == Toggle::off) return nullptr;
  // The first run allocated all memory, planned the products and loaded the kernels.
  queue_.begin_capture();
  generation_.recording = true;
  try {
    work();
  } catch (...) {
    generation_.recording = false;
    abandon_capture(queue_);
    throw;
  }
  generation_.recording = false;
  return std::make_unique<Graph>(Graph{queue_.end_capture(), generation_.value});
}

bool Device::fits(const Graph& graph) const {
  return graph.generation == generation_.value;
}

bool Device::replay(Graph& graph) {
  const NvtxRange nvtx("step, replayed");
  if (!fits(graph)) return false;
  queue_.run(graph.work);
  return true;
}

}  // namespace vaecf::cuda
